"""Shortest paths between all pairs of vertices (Floyd and Warshall), by successive broadcasts, through mpi4py's handles.

    mpirun -n 4 circulant run python3 floyd_warshall.py data/karate.mtx

The same as floyd_warshall.c, from Python: circulant's functions are called by ctypes, and MPI's handles are those
of mpi4py's objects. Without `circulant run` (or LD_PRELOAD), CIRCULANT_LIBRARY names the library.
"""

import array
import ctypes
import math
import sys

from handles import circulant, handle_of
from mpi4py import MPI


STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def owner(comm, step):
    return circulant.circulant_successive_owner(handle_of(comm), step)


def successive_bcast(steps, count, datatype, produce, store, comm):
    """produce(i) returns the values of step i; store(i, values) gets them, on every process. Both may raise."""
    typecode = "d"
    size = count * array.array(typecode).itemsize
    raised = []

    def guarded(callback):
        def call(step, buffer, context):
            try:
                return callback(step, buffer) or 0
            except Exception as error:  # It cannot go through C: it ends the operation, and is raised again below.
                raised.append(error)
                return MPI.ERR_OTHER

        return STEP(call)

    @guarded
    def produced(step, buffer):
        values = array.array(typecode, produce(step))
        ctypes.memmove(buffer, values.buffer_info()[0], size)

    @guarded
    def stored(step, buffer):
        store(step, array.array(typecode, ctypes.string_at(buffer, size)))

    code = circulant.circulant_successive_bcast(
        steps, count, handle_of(datatype), produced, stored, None, handle_of(comm)
    )
    if raised:
        raise raised[0]
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)


def read_matrix(name):
    """All distances of paths of at most one edge, from a file in Matrix Market's coordinate format."""
    with open(name) as file:
        banner = file.readline().lower()
        if not banner.startswith("%%matrixmarket matrix coordinate") or "complex" in banner:
            raise ValueError(f"{name}: not a real coordinate matrix in Matrix Market's format")
        lines = (line.split() for line in file if not line.startswith("%"))
        rows, columns, _ = map(int, next(lines))
        if rows != columns:
            raise ValueError(f"{name}: not a square matrix")
        distance = [[0.0 if i == j else math.inf for j in range(rows)] for i in range(rows)]
        for row, column, *length in lines:
            i, j, length = int(row) - 1, int(column) - 1, float(length[0]) if length else 1.0
            distance[i][j] = min(distance[i][j], length)
            if "symmetric" in banner:
                distance[j][i] = min(distance[j][i], length)
    return distance


def improve(row, k, through):
    """Paths of `row` through vertex k, whose own row is `through`."""
    first = row[k]
    row[:] = [min(known, first + rest) for known, rest in zip(row, through)]


def main():
    comm = MPI.COMM_WORLD
    matrix = read_matrix(sys.argv[1])
    n = len(matrix)
    rows = {k: list(matrix[k]) for k in range(n) if owner(comm, k) == comm.rank}

    def store(k, through):
        for row in rows.values():
            improve(row, k, through)

    successive_bcast(n, n, MPI.DOUBLE, rows.__getitem__, store, comm)

    for k in range(n):
        for row in matrix:
            improve(row, k, list(matrix[k]))
    same = comm.allreduce(all(row == matrix[k] for k, row in rows.items()), MPI.LAND)
    distances = [d for k, row in rows.items() for j, d in enumerate(row) if j != k and d < math.inf]
    longest = comm.allreduce(max(distances, default=0.0), MPI.MAX)
    mean = comm.allreduce(sum(distances)) / comm.allreduce(len(distances))
    if comm.rank == 0:
        print(f"{n} vertices, longest distance {longest:g}, mean {mean:.4f}")
        print("as a serial run" if same else "NOT as a serial run")
    return not same


if __name__ == "__main__":
    sys.exit(main())
