"""The collective tests of mpi4py's own suite, which also reach the operations that are not ours.

mpi4py calls the large-count functions where the MPI has them, and loads the MPI out of the global
scope, so that the library must find it there.
"""

import re

import pytest

from launch import OPERATIONS

PROCESSES = {"openmpi": [1, 2, 3, 5], "mpich": [1, 2, 3]}
MODULES = ["test_cco_buf", "test_cco_vec", "test_cco_obj", "test_cco_nb_buf", "test_cco_nb_vec"]
# With FORCE=1, what may still go native; "arguments" are those that the suite gets wrong on purpose.
REASONS = {"one_process", "not_commutative", "empty", "arguments"}


def command(mpi):
    venv = mpi.build / "venv"
    return [venv / "bin/python", venv / "mpi4py/test/main.py", "--quiet", *MODULES]


def verdict(run):
    """Numbers of tests and of skipped tests, of all ranks; their lines may be mixed up."""
    return re.findall(r"Ran \d+ tests", run.stderr), re.findall(r"skipped=\d+", run.stderr)


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_suite(mpi, report, processes):
    if processes not in PROCESSES[mpi.family]:
        pytest.skip(f"not on {mpi.family}")
    native = mpi.native(processes, command(mpi), timeout=300).expect_success()
    run = mpi.preloaded(processes, command(mpi), report, {"FORCE": 1}, timeout=300)
    run.expect_success()
    assert len(verdict(run)[0]) == processes, run.describe()
    assert verdict(run) == verdict(native), run.describe()
    outcomes = run.all_outcomes()
    assert set(outcomes) == set(OPERATIONS)
    for operation, of in outcomes.items():
        assert set(of) <= {"circulant"} | REASONS, (operation, of)
        assert of.get("circulant" if processes > 1 else "one_process", 0) > 50, (operation, of)
