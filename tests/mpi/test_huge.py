"""More than 2^31 bytes in one call."""

import pytest

from launch import OPERATIONS

GIB = 1 << 30
# What goes through scratch as a whole, which is never as large.
STAGED = {"gather", "scatter"}


def available_memory():
    with open("/proc/meminfo", encoding="ascii") as lines:
        (line,) = (line for line in lines if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


def huge_cases():
    """Each operation with counts that an int holds, and with larger ones; without --all, some with either."""
    for operation in OPERATIONS:
        if operation not in STAGED:
            is_shown = operation == "allgatherv"
            marks = [pytest.mark.any_mpi, *([] if is_shown else [pytest.mark.repeats])]
            yield pytest.param("huge", operation, marks=marks)
            marks = {"bcast": [], "allreduce": [pytest.mark.any_mpi]}.get(operation, [pytest.mark.repeats])
            yield pytest.param("huge_c", operation, marks=marks)


@pytest.mark.xdist_group("huge")  # one at a time
@pytest.mark.parametrize("program, operation", [*huge_cases()])
def test_huge(mpi, report, program, operation):
    """The large-count functions with counts beyond 2^31, too."""
    if available_memory() < 9 * GIB:
        pytest.skip("needs 9 GiB of memory")
    run = mpi.preloaded(2, [mpi.program(program), operation], report, {"FORCE": 1}, timeout=300)
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {operation: {"circulant": 1}}
    assert sum(row["bytes"] for row in run.rows()) > 1 << 31


@pytest.mark.xdist_group("huge")
def test_huge_element(mpi, report):
    """What only one process knows cannot be packed is agreed on, and goes native."""
    if available_memory() < 9 * GIB:
        pytest.skip("needs 9 GiB of memory")
    run = mpi.preloaded(2, [mpi.program("huge"), "element"], report, {"FORCE": 1}, timeout=300)
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {"allgatherv": {"scratch": 1}}


@pytest.mark.parametrize("processes", [2, 5])
def test_sparse(mpi, report, processes):
    """Offsets beyond 2^31 bytes within datatypes and displacements."""
    run = mpi.preloaded(processes, [mpi.program("huge"), "sparse"], report, {"FORCE": 1})
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {"bcast": {"circulant": 1}, "allgatherv": {"circulant": 1}}
