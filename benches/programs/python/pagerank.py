"""PageRank over mpi4py: the pages are cut so that each process has as many links, and gathered after each step.
The numbers of pages differ much, so that the gathering is an irregular MPI_Allgatherv."""

import numpy
from mpi4py import MPI

PAGES, LINKS, ITERATIONS, DAMPING = 40_000, 400_000, 40, 0.85


def main():
    world = MPI.COMM_WORLD
    random = numpy.random.default_rng(11)
    # Few pages have most of the links to them.
    source = random.integers(PAGES, size=LINKS)
    target = numpy.sort((PAGES * random.random(LINKS) ** 3).astype(int))
    bounds = [0, *target[[LINKS * rank // world.size for rank in range(1, world.size)]], PAGES]
    counts = numpy.diff(bounds)
    low, high = bounds[world.rank], bounds[world.rank + 1]
    mine = (target >= low) & (target < high)
    my_source, my_target = source[mine], target[mine] - low
    degree = numpy.maximum(numpy.bincount(source, minlength=PAGES), 1)
    ranks = numpy.full(PAGES, 1 / PAGES)
    for _ in range(ITERATIONS):
        shares = ranks / degree
        gathered = numpy.bincount(my_target, weights=shares[my_source], minlength=high - low)
        world.Allgatherv((1 - DAMPING) / PAGES + DAMPING * gathered, [ranks, counts, MPI.DOUBLE])
    if world.rank == 0:
        print(f"result: {ranks.sum() + ranks[0]:.9e}")


main()
