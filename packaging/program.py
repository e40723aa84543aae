"""Fails where circulant does not run its broadcast."""

import ctypes

from mpi4py import MPI

data = bytearray(b"*" * 4000 if MPI.COMM_WORLD.rank == 0 else 4000)
MPI.COMM_WORLD.Bcast(data)
assert data == b"*" * 4000
calls = ctypes.CDLL(None).circulant_calls
calls.restype = ctypes.c_ulonglong
assert calls(b"bcast") == 1
