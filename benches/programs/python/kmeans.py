"""k-means (Lloyd's algorithm) over mpi4py: each process has its points, the centres are the same everywhere."""

import numpy
from mpi4py import MPI

POINTS, FEATURES, CLUSTERS, ITERATIONS = 2000, 256, 64, 40


def main():
    world = MPI.COMM_WORLD
    random = numpy.random.default_rng(world.rank)
    points = random.normal(size=(POINTS, FEATURES)) + random.integers(CLUSTERS, size=(POINTS, 1)) / 8
    centres = points[:CLUSTERS].copy()
    world.Bcast(centres)
    for _ in range(ITERATIONS):
        distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
        nearest = distances.argmin(axis=1)
        sums = numpy.zeros_like(centres)
        numpy.add.at(sums, nearest, points)
        counts = numpy.bincount(nearest, minlength=CLUSTERS)
        world.Allreduce(MPI.IN_PLACE, sums)
        world.Allreduce(MPI.IN_PLACE, counts)
        centres = sums / numpy.maximum(counts, 1)[:, None]
    inertia = world.allreduce(((points - centres[nearest]) ** 2).sum())
    if world.rank == 0:
        print(f"result: {inertia:.9e}")


main()
