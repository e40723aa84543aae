"""The allgathers and broadcasts on inter-communicators. The program checks itself against a serial computation;
natively not every MPI can do all of it.
"""

import collections

import pytest

from test_programs import compare, counted, grouped

PROCESSES = [2, 3, 5, 8, 9, 16]
VARIANTS = {
    "steps": {"SEGMENT": 700},
    "one-step": {"SEGMENT": "1G"},
    "skips-power2": {"SKIPS": "power2"},
    "skips-linear": {"SKIPS": "linear"},
    "synchronous": {"PACING": "synchronous"},
    "eager": {"PACING": "eager", "WINDOW": 16, "SENDS": 8},
    "blocks": {"BLOCKS": 7},
}


def cases():
    for processes in PROCESSES:
        yield "intergroup", processes, "default"
    for variant in VARIANTS:
        yield "intergroup", 5, variant


def expect_ours(run):
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.stderr == "", run.describe()
    made = counted(run.stdout)
    assert run.all_outcomes() == made
    assert all(made[operation]["circulant"] > 50 for operation in made)


@pytest.mark.parametrize("program, processes, variant", [grouped(*case) for case in cases()])
def test_intergroup(mpi, report, program, processes, variant):
    settings = {"FORCE": 1, **VARIANTS.get(variant, {})}
    expect_ours(mpi.preloaded(processes, [mpi.program(program)], report, settings))


@pytest.mark.parametrize("processes", [2, 5])
def test_large_counts(mpi, report, processes):
    expect_ours(mpi.preloaded(processes, [mpi.program("intergroup_c")], report, {"FORCE": 1}))


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_invalid_arguments(mpi, report, processes):
    """As natively, on every rank, where the first call is in error; and the next is circulant's. (With two
    processes none is a neighbour of a root.)"""
    command = [mpi.program("intergroup"), "errors"]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1})
    compare(run, native)
    valid = counted(run.stdout)["bcast"]["circulant"]
    # After each of nine errors, three of them of MPI_Bcast, a broadcast.
    assert run.outcomes("bcast") == {"circulant": valid, "arguments": valid // 3}


def native_reasons(run):
    return {operation: set(of) for operation, of in run.all_outcomes().items()}


@pytest.mark.parametrize("processes", [3, 5])
@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"INTER": 0}, "inter_communicator"),
        ({"DISABLE": 1}, "disabled"),
        ({"COMMUNICATORS": 0}, "no_communicator"),
    ],
)
def test_native(mpi, report, processes, settings, reason):
    """All processes of both groups leave all calls to the MPI library, with the same results. (Open
    MPI 4.1 fails natively where ranks of one group describe what they send by different types.)"""
    command = [mpi.program("intergroup"), "plain"]
    native = mpi.native(processes, command).expect_success()
    settings = {"FORCE": 1, "ALLGATHER": "circulant", **settings}
    run = mpi.preloaded(processes, command, report, settings, trapped=True)
    compare(run, native)
    for operation, of in native_reasons(run).items():
        assert reason in of and of <= {reason, "empty"}, operation


@pytest.mark.parametrize("processes", [3, 5])
def test_no_scratch(mpi, report, processes):
    """What needs none is still ours, as a group of two's allgather; the rest goes native on all."""
    command = [mpi.program("intergroup"), "plain"]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1, "SCRATCH_MAX": 0}, trapped=True)
    compare(run, native)
    reasons = native_reasons(run)
    for operation, of in reasons.items():
        assert of <= {"scratch", "circulant", "empty"}, operation
        assert "scratch" in of or processes == 3 and operation == "allgather", operation
    assert "circulant" in reasons["allgather"]


def test_default(mpi, report):
    """On one node nothing is taken over, and results are the native ones."""
    command = [mpi.program("intergroup"), "plain"]
    native = mpi.native(5, command).expect_success()
    run = mpi.preloaded(5, command, report, {}, trapped=True)
    compare(run, native)
    for of in native_reasons(run).values():
        assert of <= {"one_node", "small", "cost_model", "empty"}


@pytest.mark.parametrize(
    "rules, small, large",
    [
        ("circulant:0-inf", "circulant", "circulant"),
        ("circulant:0-10K;native", "circulant", "chosen"),
        ("native:0-10K;circulant", "chosen", "circulant"),
        ("circulant:10K-inf;native", "chosen", "circulant"),
        ("native", "chosen", "chosen"),
    ],
)
def test_rules_by_size(mpi, report, rules, small, large):
    """Which of a small and a large call are circulant's is decided when their bytes are known. Rank 0
    is in the receiving group of one broadcast of each size, and the root of the other."""
    command = [mpi.program("intergroup"), "sized"]
    names = ["BCAST", "ALLGATHER", "ALLGATHERV"]
    run = mpi.preloaded(4, command, report, dict.fromkeys(names, rules), trapped=True)
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.stderr == "", run.describe()
    for operation, calls in [("bcast", 2), ("allgather", 1), ("allgatherv", 1)]:
        expected = collections.Counter()
        expected.update({small: calls})
        expected.update({large: calls})
        assert run.outcomes(operation) == expected, operation
