"""A sample sort over mpi4py: samples are gathered, splitters broadcast, and numbers exchanged by MPI_Alltoallv."""

import numpy
from mpi4py import MPI

NUMBERS, SAMPLES, ROUNDS = 100_000, 256, 5


def sort(world, numbers):
    numbers = numpy.sort(numbers)
    samples = world.gather(numbers[:: len(numbers) // SAMPLES])
    splitters = numpy.empty(world.size - 1)
    if world.rank == 0:
        samples = numpy.sort(numpy.concatenate(samples))
        splitters = samples[[len(samples) * rank // world.size for rank in range(1, world.size)]]
    world.Bcast(splitters)
    ends = numpy.searchsorted(numbers, splitters)
    send = numpy.diff([0, *ends, len(numbers)])
    receive = numpy.array(world.alltoall(send.tolist()))
    sorted_here = numpy.empty(receive.sum())
    world.Alltoallv([numbers, send, MPI.DOUBLE], [sorted_here, receive, MPI.DOUBLE])
    return numpy.sort(sorted_here)


def main():
    world = MPI.COMM_WORLD
    for round_ in range(ROUNDS):
        numbers = sort(world, numpy.random.default_rng((round_, world.rank)).exponential(size=NUMBERS))
    # Each number counts by where it came to be.
    before = world.exscan(len(numbers)) or 0
    checksum = world.allreduce((numbers * (before + numpy.arange(len(numbers)))).sum())
    if world.rank == 0:
        print(f"result: {checksum:.9e}")


main()
