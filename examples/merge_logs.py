"""Merges log files by time, as merge_logs.c does, from Python, through mpi4py's handles.

    mpirun -n 4 circulant run python3 merge_logs.py server1.log server2.log ...

circulant's functions are called by ctypes. Without `circulant run` (or LD_PRELOAD), CIRCULANT_LIBRARY names the
library.
"""

import ctypes
import sys

from handles import circulant, handle_of
from mpi4py import MPI

LINE = 256  # bytes of a line, filled up with zeros; longer ones are cut

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def allgather_merge(own, datatype, compare, comm):
    """The sorted elements of all processes as one sequence, on all of them.

    `own` holds elements of `datatype`: a bytearray, an array or a numpy array, any writable buffer. The result is
    a bytearray. `compare` is a COMPARE, or None for numbers.
    """
    size = datatype.Get_size()
    count = memoryview(own).nbytes // size
    room = comm.allreduce(count)
    merged, merged_count = bytearray(room * size), ctypes.c_int()
    code = circulant.circulant_allgather_merge(
        address_of(own),
        count,
        address_of(merged),
        room,
        ctypes.byref(merged_count),
        handle_of(datatype),
        compare or COMPARE(),
        None,
        handle_of(comm),
    )
    if code:
        raise MPI.Exception(code)
    return merged[: merged_count.value * size]


def address_of(buffer):
    return (ctypes.c_char * memoryview(buffer).nbytes).from_buffer(buffer) if memoryview(buffer).nbytes else None


def time_of(line):
    return line.split(None, 1)[0] if line.strip() else b""


@COMPARE
def compare_times(a, b, _):
    a, b = (time_of(ctypes.string_at(address, LINE).rstrip(b"\0")) for address in (a, b))
    return (a > b) - (a < b)


def main(names):
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    # Those that follow each other, so that lines of the same time keep the order of files.
    first, end = (len(names) * rank // comm.size for rank in (comm.rank, comm.rank + 1))
    lines = [line for name in names[first:end] for line in open(name, "rb").read().splitlines()]
    lines.sort(key=time_of)
    own = bytearray(b"".join(line[:LINE].ljust(LINE, b"\0") for line in lines))
    datatype = MPI.BYTE.Create_contiguous(LINE).Commit()
    merged = allgather_merge(own, datatype, compare_times, comm)
    datatype.Free()
    if comm.rank == 0:
        for start in range(0, len(merged), LINE):
            print(merged[start : start + LINE].rstrip(b"\0").decode())


if __name__ == "__main__":
    main(sys.argv[1:])
