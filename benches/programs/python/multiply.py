"""A product of dense matrices by SUMMA over mpi4py: panels are broadcast along the rows and the columns of a grid
of processes."""

import numpy
from mpi4py import MPI

ROWS, PANEL = 1536, 128


def block(seed, shape):
    return numpy.random.default_rng(seed).normal(size=shape)


def main():
    world = MPI.COMM_WORLD
    down, across = MPI.Compute_dims(world.size, 2)
    row, column = divmod(world.rank, across)
    along_row, along_column = world.Split(row, column), world.Split(column, row)
    height, width = ROWS // down, ROWS // across
    product = numpy.zeros((height, width))
    for step in range(ROWS // PANEL):
        left = numpy.empty((height, PANEL))
        right = numpy.empty((PANEL, width))
        if column == step % across:
            left = block((1, step, row), left.shape)
        if row == step % down:
            right = block((2, step, column), right.shape)
        along_row.Bcast(left, step % across)
        along_column.Bcast(right, step % down)
        product += left @ right
    norm = world.allreduce((product**2).sum())
    if world.rank == 0:
        print(f"result: {norm:.9e}")


main()
