"""circulant_successive_bcast, and broadcasts whose roots follow each other. The program checks itself against a
serial computation.
"""

import re

import pytest

from cases import repeated

PROCESSES = [1, 2, 3, *repeated(4), 5, 8, 9, *repeated(11), 16]
VARIANTS = {
    "synchronous": ({"PACING": "synchronous"}, 5),
    "eager": ({"PACING": "eager"}, 4),
    "forced": ({"FORCE": 1}, 5),
    "trees": ({"SUCCESSIVE_BCAST": "trees"}, 4),
}
NATIVE = [
    ({"DISABLE": 1}, "disabled", 4),
    ({"SUCCESSIVE_BCAST": "native"}, "chosen", 5),
    ({"COMMUNICATORS": 0}, "no_communicator", 5),
    ({"SCRATCH_MAX": 0}, "scratch", 4),
]


def checked(run):
    run.expect_success()
    assert "failures=0" in run.stdout, run.describe()
    assert run.stderr == "", run.describe()
    return run


def printed(run, name):
    return int(re.search(rf"\b{name}=(\d+)", run.stdout).group(1))


def expect(run, processes, outcome):
    calls = printed(checked(run), "calls")
    outcomes = run.outcomes("successive_bcast")
    # A communicator of one process is left to the MPI library.
    assert outcomes.pop("one_process", 0) > 0 or processes > 1
    assert outcomes == ({outcome: calls} if calls else {}), run.describe()
    assert processes == 1 or calls > 0


@pytest.mark.parametrize("what", ["all", "faults", "arguments"])
@pytest.mark.parametrize("processes", PROCESSES)
def test_successive(mpi, report, processes, what):
    if what == "faults" and processes > 9:
        pytest.skip("the number of faults grows with the square of the processes")
    command = [mpi.program("successive"), *([what] if what != "all" else [])]
    expect(mpi.preloaded(processes, command, report, timeout=300), processes, "circulant")


@pytest.mark.any_mpi
def test_without_a_report(mpi):
    """Where nothing is counted, small calls are told apart before anything is known of a communicator."""
    run = mpi.run(3, [mpi.program("successive")], mpi.library, timeout=300).expect_success()
    assert re.search("calls=[1-9]", run.stdout), run.describe()


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant(mpi, report, variant):
    settings, processes = VARIANTS[variant]
    run = mpi.preloaded(processes, [mpi.program("successive")], report, settings, timeout=300)
    expect(run, processes, "circulant")


@pytest.mark.parametrize("relayed", ["0", "1M"])
@pytest.mark.parametrize("what", ["alone", "faults"])
@pytest.mark.parametrize("processes", [2, 3, *repeated(5, 8)])
def test_relay(mpi, report, processes, what, relayed):
    """From owner to owner, in messages of one value to the next or of up to all."""
    settings = {"SUCCESSIVE_BCAST": "relay", "RELAYED": relayed}
    run = mpi.preloaded(processes, [mpi.program("successive"), what], report, settings, timeout=300)
    expect(run, processes, "circulant")


def along_trees(processes, *steps):
    """Units of time in the port model."""
    return sum(2 * (n - 1) + processes.bit_length() - 1 for n in steps)


def by_relay(processes, *steps):
    """The same with skips 1, 2, 4, ...: the last value takes a message for each bit of the distance."""
    return sum(n - 1 + max(distance.bit_count() for distance in range(processes)) for n in steps)


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [3, 4, 5])
def test_both_ways(mpi, report, processes):
    """By default both ways are taken for 2p steps each, and then that which was faster; few steps, large values and
    those that take long to store go along trees."""
    steps = 12 * processes
    start = [processes, processes]
    left = steps - 4 * processes
    trees, relay = along_trees(processes, *start), by_relay(processes, *start)
    only_trees = {along_trees(processes, *start, steps - 2 * processes)}
    # Beside other work any callback may take long.
    either = {trees + relay + along_trees(processes, left), trees + relay + by_relay(processes, left), *only_trees}
    cases = [
        ("many", steps, {"RELAYED": 0}, either),
        ("many", steps - 1, {}, {along_trees(processes, steps - 1)}),
        ("slow", steps, {}, only_trees),
        ("many", steps, {"SUCCESSIVE_BCAST": "trees"}, {along_trees(processes, steps)}),
        ("many", steps, {"SUCCESSIVE_BCAST": "relay", "RELAYED": 0}, {by_relay(processes, steps)}),
    ]
    for what, count, settings, rounds in cases:
        run = mpi.preloaded(processes, [mpi.program("successive"), what, count], report, settings)
        expect(run, processes, "circulant")
        (row,) = [row for row in run.rows() if row["operation"] == "successive_bcast"]
        assert row["blocks"] == count and row["rounds"] in rounds, (what, row, rounds)


@pytest.mark.parametrize("settings, reason, processes", NATIVE)
@pytest.mark.parametrize("what", ["all", "faults", "arguments"])
def test_native(mpi, report, processes, what, settings, reason):
    """By the MPI library's broadcasts, with the same callbacks and the same ends."""
    command = [mpi.program("successive"), *([what] if what != "all" else [])]
    run = mpi.preloaded(processes, command, report, settings, trapped=True, timeout=300)
    expect(run, processes, reason)


@pytest.mark.parametrize("settings", [{}, {"SUCCESSIVE_BCAST": "native"}])
@pytest.mark.parametrize("processes", [*repeated(2), 3, *repeated(4)])
def test_no_memory(mpi, report, processes, settings):
    """All processes return that one has no memory; natively, before anything is sent to it."""
    checked(mpi.preloaded(processes, [mpi.program("successive"), "memory"], report, settings, timeout=300))


@pytest.mark.parametrize("processes, steps", [pytest.param(2, 200000, marks=pytest.mark.repeats), (3, 50000)])
def test_many_steps(mpi, report, processes, steps):
    run = mpi.preloaded(processes, [mpi.program("successive"), "many", steps], report, timeout=300)
    expect(run, processes, "circulant")
    assert [row["blocks"] for row in run.rows() if row["operation"] == "successive_bcast"] == [steps]


@pytest.mark.parametrize("processes", [2, 3, *repeated(4)])
def test_threads(mpi, report, processes):
    run = checked(mpi.preloaded(processes, [mpi.program("successive"), "threads"], report, timeout=300))
    assert set(run.outcomes("successive_bcast")) == {"circulant"}
    assert run.outcomes("successive_bcast")["circulant"] in (20, 40)


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "processes, settings",
    [*((p, {}) for p in (2, 3, 4, 8, 9)), (5, {"FORCE": 1}), (8, {"FORCE": 1}), (3, {"PACING": "synchronous"})],
)
def test_roots_in_order(mpi, report, processes, settings):
    """Exactly the small broadcasts whose roots follow go along the trees; by the cost model no other is
    circulant's on one machine, if they share no memory."""
    command = [mpi.program("successive"), "roots"]
    settings = {"BCAST_ORDER": "gray", "SELECT": "model", "SHARED_MAX": 0, **settings}
    run = checked(mpi.preloaded(processes, command, report, settings))
    assert printed(run, "followed") > 100
    outcomes = run.outcomes("bcast")
    if "FORCE" not in settings:
        assert outcomes.pop("circulant") == printed(run, "followed")
        assert set(outcomes) <= {"small", "empty", "one_node", "cost_model"}
    else:
        assert outcomes["circulant"] >= printed(run, "followed")


@pytest.mark.parametrize("settings, reason", [({}, "small"), ({"BCAST": "native"}, "chosen"), ({"DISABLE": 1}, "disabled")])
def test_roots_without_order(mpi, report, settings, reason):
    order = {"SELECT": "model", "SHARED_MAX": 0, **({"BCAST_ORDER": "gray"} if settings else {})}
    command = [mpi.program("successive"), "roots"]
    run = checked(mpi.preloaded(4, command, report, {**order, **settings}, trapped=True))
    outcomes = run.outcomes("bcast")
    assert reason in outcomes and "circulant" not in outcomes
