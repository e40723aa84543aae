"""Cases that are left out where others show the same."""

import pytest


def repeated(*values):
    """Cases of which others of the same test have shown the same."""
    return [pytest.param(value, marks=pytest.mark.repeats) for value in values]


def on_another_mpi(*values):
    """Cases of which others of the same test show the same on the first MPI."""
    return [pytest.param(value, marks=pytest.mark.beside) for value in values]


def on_any_mpi(*values):
    """Cases that do not depend on the MPI."""
    return [pytest.param(value, marks=pytest.mark.any_mpi) for value in values]
