"""Recommendations by alternating least squares over mpi4py: each process solves for its users, then for its items,
and all gather the factors of all. The shares differ by one row, so that the gathering is MPI_Allgatherv."""

import numpy
from mpi4py import MPI

USERS, ITEMS, RANK, ITERATIONS, RIDGE = 3001, 1501, 24, 12, 0.1


def shares(rows, size):
    """How many rows each process has."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


def solve(world, ratings, others, rows):
    """The factors of all `rows` by least squares; `ratings` are those of this process' rows."""
    gram = others.T @ others + RIDGE * numpy.eye(RANK)
    mine = numpy.linalg.solve(gram, others.T @ ratings.T).T.copy()
    everyones = numpy.empty((rows, RANK))
    world.Allgatherv(mine, [everyones, [count * RANK for count in shares(rows, world.size)], MPI.DOUBLE])
    return everyones


def main():
    world = MPI.COMM_WORLD
    random = numpy.random.default_rng(7)
    ratings = random.normal(size=(USERS, 6)) @ random.normal(size=(6, ITEMS))
    items = random.normal(size=(ITEMS, RANK))
    first = [sum(shares(rows, world.size)[: world.rank]) for rows in (USERS, ITEMS)]
    count = [shares(rows, world.size)[world.rank] for rows in (USERS, ITEMS)]
    my_users = ratings[first[0] : first[0] + count[0]].copy()
    my_items = ratings[:, first[1] : first[1] + count[1]].T.copy()
    for _ in range(ITERATIONS):
        users = solve(world, my_users, items, USERS)
        items = solve(world, my_items, users, ITEMS)
    error = world.allreduce(((my_users - users[first[0] : first[0] + count[0]] @ items.T) ** 2).sum())
    if world.rank == 0:
        print(f"result: {numpy.sqrt(error / ratings.size):.6e}")


main()
