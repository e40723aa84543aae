"""Checks: the MPI library repeats the calls that the library has run, and the results are compared.

Without a fault no call may differ, and the report says that calls were checked. With a fault in the
messages (`fault.c`) the program has to get right results all the same, one line has to name the
place, and later calls of the kind have to be native.
"""

import re

import pytest

from cases import repeated
from launch import NATIVE_ENVIRONMENT, OPERATIONS
from test_programs import BY_LEADERS

FORCED = {"FORCE": 1, "CHECK": 1}

LINE = re.compile(
    r"^circulant: check of (?P<operation>\w+) (?P<bytes>\d+) B p=(?P<p>\d+)( root=(?P<root>\d+))? "
    r"by (?P<algorithm>\S+)( n=\d+)?: the result on rank (?P<rank>\d+) differs from the MPI library's "
    r"at byte (?P<byte>\d+), .*stay native on this communicator$",
    re.MULTILINE,
)

# Each call is native, too: into the traps that launch.py keeps out of the way of native runs.
TRAPPED = {"trapped": True}


def checks(run, operation=None):
    """How many calls were checked, and how many of them differed."""
    rows = [row for row in run.rows() if operation in (None, row["operation"])]
    return sum(row.get("checked", 0) for row in rows), sum(row.get("differed", 0) for row in rows)


def results(run):
    """What a program has said, without the number of its checks: its operators have some, too, and run
    more often."""
    return re.sub("checks=[0-9]+ ", "", run.stdout)


def calls_of_ours(run):
    return {row["operation"]: row["calls"] for row in run.rows() if row["algorithm"] == "circulant"}


@pytest.mark.parametrize("processes", [3, *repeated(5)])
@pytest.mark.parametrize("program", [*OPERATIONS, "absolute", "communicators"])
def test_nothing_differs(mpi, native_run, report, program, processes):
    """All datatypes, also with gaps, in place and not; the program's operators, too."""
    settings = {**FORCED, "CHECK_OPERATORS": 1}
    run = mpi.preloaded(processes, [mpi.program(program)], report, settings, **TRAPPED)
    run.expect_success()
    assert results(run) == results(native_run(program, processes)), run.describe()
    assert "check of" not in run.stderr, run.describe()
    checked, differed = checks(run)
    assert checked > 0 and differed == 0
    if program in OPERATIONS and "reduce" not in program:
        assert checked == calls_of_ours(run)[program]


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [3, *repeated(5)])
@pytest.mark.parametrize("name", ["nodes", "blocks", "chunks", "gray", "one-block"])
def test_nothing_differs_by_any_algorithm(mpi, report, name, processes):
    variants = {
        "nodes": {"NODE_SIZE": 2},
        "blocks": {"BLOCKS": 7, "WINDOW": 3},
        "chunks": {"CHUNKS": 3, "BLOCKS": 5},
        "gray": {"BCAST_ORDER": "gray"},
        "one-block": {"BLOCKS": 1, "SKIPS": "sqrt"},
    }
    calls = [f"{operation}:40000x3" for operation in OPERATIONS]
    run = mpi.preloaded(
        processes, [mpi.program("sequence"), *calls], report, {**FORCED, **variants[name]}, **TRAPPED
    )
    run.expect_success()
    assert "check of" not in run.stderr, run.describe()
    for operation in OPERATIONS:
        assert run.outcomes(operation) == {"circulant": 3}
        assert checks(run, operation) == (3, 0)


@pytest.mark.parametrize("processes", [3, *repeated(5)])
def test_rounding_is_no_difference(mpi, report, processes):
    """The program gets the results that it gets without checks, to the last bit."""
    command = [mpi.program("rounding")]
    plain = mpi.preloaded(processes, command, report, {"FORCE": 1}).expect_success()
    run = mpi.preloaded(processes, command, report, FORCED, **TRAPPED).expect_success()
    assert run.stdout == plain.stdout, run.describe()
    assert "check of" not in run.stderr, run.describe()
    assert calls_of_ours(run) == calls_of_ours(plain)
    assert checks(run) == (sum(calls_of_ours(run).values()), 0)
    assert checks(plain) == (0, 0)


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [3])
def test_so_many_calls_of_a_kind(mpi, report, processes):
    calls = ["bcast:40000x5", "bcast:400000x5", "reduce:40000x5"]
    settings = {**FORCED, "CHECK": 2}
    run = mpi.preloaded(processes, [mpi.program("sequence"), *calls], report, settings, **TRAPPED)
    run.expect_success()
    assert checks(run, "bcast") == (4, 0)
    assert checks(run, "reduce") == (2, 0)
    assert run.all_outcomes() == {"bcast": {"circulant": 10}, "reduce": {"circulant": 5}}


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [4])
def test_operators_of_the_program_are_not_run_twice(mpi, report, processes):
    command = [mpi.program("allreduce")]
    few, all_calls = [
        mpi.preloaded(processes, command, report, {**FORCED, "CHECK_OPERATORS": on}, **TRAPPED)
        for on in (0, 1)
    ]
    assert results(few.expect_success()) == results(all_calls.expect_success())
    assert 0 < checks(few)[0] < checks(all_calls)[0] < calls_of_ours(few)["allreduce"]


@pytest.mark.parametrize("processes", [4])
def test_learning_goes_on(mpi, report, processes):
    """Trials, and calls after them, may be checked."""
    calls = ["bcast:200000x60", "allgather:200000x60"]
    run = mpi.preloaded(
        processes, [mpi.program("sequence"), *calls], report, {"CHECK": 1, "SELECT": "tune"}, **TRAPPED
    )
    run.expect_success()
    ours = calls_of_ours(run)
    assert checks(run) == (sum(ours.values()), 0)
    assert "bcast" in run.tried()


def with_fault(mpi, processes, command, report, rank=1, settings=None, **variables):
    """With a fault in the way of the messages of one rank."""
    environment = {
        **NATIVE_ENVIRONMENT[mpi.family],
        "CIRCULANT_REPORT": str(report),
        "FAULT_RANK": str(rank),
        **{f"FAULT_{name.upper()}": str(value) for name, value in variables.items()},
        **{f"CIRCULANT_{name}": str(value) for name, value in {**FORCED, **(settings or {})}.items()},
    }
    libraries = [mpi.library, *(mpi.build / "tests").glob("lib*fault.so")]
    return mpi.run(processes, command, libraries, environment).with_report(report)


# Rank 1 sends nothing in a scatter of three processes, in which it is not the root.
SENDER = {"scatter": 0}


@pytest.mark.parametrize("processes", [3, *repeated(5)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_wrong_block_is_found(mpi, report, operation, processes):
    command = [mpi.program("sequence"), f"{operation}:40000x6"]
    rank = SENDER.get(operation, 1)
    run = with_fault(mpi, processes, command, report, rank, bytes=1000)
    run.expect_success()
    lines = list(LINE.finditer(run.stderr))
    assert len(lines) == 1, run.describe()
    assert run.stderr.count("check of") == 1, run.describe()
    found = lines[0]
    assert found["operation"] == operation and int(found["p"]) == processes
    assert int(found["bytes"]) in range(39000, 40001)
    assert 0 <= int(found["rank"]) < processes
    assert 0 <= int(found["byte"]) < 40000
    outcomes = run.outcomes(operation)
    assert outcomes.keys() == {"circulant", "differed"}, outcomes
    assert outcomes["circulant"] + outcomes["differed"] == 6
    assert checks(run, operation) == (outcomes["circulant"], 1)


# On two nodes of two, rank 2 sends in every operation. In shared memory nothing is sent: with that on two nodes, rank 2
# leads the second one.
WAYS = {
    "leaders": (4, 2, {"NODE_SIZE": 2}, {"bytes": 1000}, sorted(BY_LEADERS)),
    "lanes": (4, 2, {"NODE_SIZE": 2}, {"bytes": 1000}, sorted(BY_LEADERS)),
    "shared": (3, 1, {}, {"copy": 5000}, OPERATIONS),
    "shared-by-nodes": (4, 2, {"NODE_SIZE": 2}, {"bytes": 1000}, sorted(BY_LEADERS)),
}


@pytest.mark.any_mpi
@pytest.mark.parametrize("way, operation", [(way, operation) for way in WAYS for operation in WAYS[way][-1]])
def test_a_wrong_block_is_found_however_calls_run(mpi, report, way, operation):
    processes, rank, settings, fault, _ = WAYS[way]
    command = [mpi.program("sequence"), f"{operation}:40000x6"]
    algorithm = way.partition("-")[0]
    settings = {**settings, operation.upper(): algorithm}
    run = with_fault(mpi, processes, command, report, rank, settings, **fault).expect_success()
    (found,) = LINE.finditer(run.stderr)
    assert (found["operation"], found["algorithm"]) == (operation, algorithm), run.describe()
    assert any(algorithm in row.get("algorithms", {}) for row in run.rows()), run.describe()
    assert checks(run, operation)[1] == 1


@pytest.mark.parametrize("processes", [3])
def test_without_a_check_a_wrong_block_is_not_found(mpi, report, processes):
    """So the fault is one."""
    command = [mpi.program("sequence"), "allgather:40000x6"]
    run = with_fault(mpi, processes, command, report, 1, {"CHECK": 0}, bytes=1000)
    assert run.status not in (0, None), run.describe()
    assert "check of" not in run.stderr


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [3])
def test_other_kinds_stay(mpi, report, processes):
    """Calls of another operation or of another size are run as before."""
    command = [mpi.program("sequence"), "allgather:40000x3", "allgather:4000x3", "bcast:40000x3"]
    run = with_fault(mpi, processes, command, report, bytes=8000).expect_success()
    assert run.all_outcomes() == {
        "allgather": {"circulant": 4, "differed": 2},
        "bcast": {"circulant": 3},
    }
    assert checks(run, "allgather") == (4, 1)
    assert checks(run, "bcast") == (3, 0)


@pytest.mark.parametrize("processes", [3])
def test_a_wrong_number_is_found(mpi, report, processes):
    """More than rounding. The program's own checks hold."""
    run = with_fault(mpi, processes, [mpi.program("rounding")], report, bytes=1000).expect_success()
    assert len(LINE.findall(run.stderr)) == 1, run.describe()
    assert checks(run)[1] == 1


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [3])
def test_without_memory_for_a_copy(mpi, report, processes):
    """If one process has no memory for a copy, the calls are run without a check."""
    command = [mpi.program("sequence"), "bcast:40000x3", "bcast:80000x3"]
    run = with_fault(mpi, processes, command, report, memory=80000).expect_success()
    assert run.outcomes("bcast") == {"circulant": 6}
    assert checks(run, "bcast") == (3, 0), run.describe()
