"""Processes that are killed while others go on without them, as ULFM asks (revoked.c): on MPIs that can."""

import re

import pytest

CALLS = [0, 3, 9, 20]


def survivors(run):
    found = re.search(r"^survivors (\d+) of (\d+), errors (\d+), circulant (\d+)$", run.stdout, re.MULTILINE)
    assert found, run.describe()
    return [int(number) for number in found.groups()]


def run_without(mpi, report, settings, processes, *arguments):
    """A run in which a process is killed. (The launcher may stay: natively, too.)"""
    program = mpi.program("revoked")
    if mpi.family != "openmpi" or not program.exists():
        pytest.skip("an MPI that does not go on after a failure")
    command = ["--with-ft", "ulfm", program, *arguments]
    run = mpi.preloaded(processes, command, report, settings, timeout=25)
    left, before, _, ours = survivors(run)
    assert (left, before) in [(processes - 1, processes), (processes, processes)], run.describe()
    return run, ours


@pytest.mark.parametrize("microseconds", [0, 300, 3000], ids=lambda time: f"after-{time}-us")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("processes, victim", [(3, 0), (4, 1), (6, 2), (9, 5), (16, 15)])
def test_survivors_of_a_failure(mpi, report, processes, victim, call, microseconds):
    """Every survivor finishes all calls, with right results, most of them by circulant: also who waits, in a
    call, for a process that lives and has left it with an error."""
    run, ours = run_without(mpi, report, {"FORCE": 1}, processes, victim, call, microseconds)
    assert ours >= 10, run.describe()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "settings",
    [{"SELECT": "tune"}, {"FORCE": 1, "CHECK": 1}, {"FORCE": 1, "NODE_SIZE": 2}],
    ids=["trials", "checks", "leaders"],
)
def test_survivors_where_circulant_does_more(mpi, report, settings, call):
    """The same where calls are trials, are checked, or are run by leaders: then collectives of circulant's own
    are under way. (By default all calls of this program are native.) Rank 0 is alive, and has the report."""
    run, _ = run_without(mpi, report, settings, 6, 2, call, 300)
    rows = run.rows()
    if "SELECT" in settings:
        assert any(row.get("reason") == "trial" for row in rows), run.describe()
    if "CHECK" in settings:
        assert any(row.get("checked") for row in rows), run.describe()
    if "NODE_SIZE" in settings:
        assert any("leaders" in row.get("algorithms", {}) for row in rows), run.describe()
