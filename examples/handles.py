"""circulant's functions from Python: the library, and MPI's handles as C has them, of mpi4py's objects."""

import ctypes
import os

from mpi4py import MPI

# Preloaded, or what CIRCULANT_LIBRARY names.
circulant = ctypes.CDLL(os.environ.get("CIRCULANT_LIBRARY"))


def handle_of(thing):
    """An integer or a pointer, as the MPI has them."""
    kind = ctypes.c_int if MPI._sizeof(type(thing)) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    return kind.from_address(MPI._addressof(thing))
