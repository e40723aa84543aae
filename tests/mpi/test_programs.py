"""The self-checking programs, natively and under the library.

Each test runs a program under the library with CIRCULANT_FORCE=1 and compares three things: the
program's own verdict, the digest of all its results with that of a native run, and its own count
of calls, by what should have become of them, with the library's report. A library that does
nothing fails the third.
"""

import re

import pytest

from cases import on_any_mpi, repeated
from launch import OPERATIONS

ROOTED = {"bcast", "reduce"}

# Between them: powers of two, one more and one less, primes, and one communicator that is alone.
PROCESSES = [1, 2, 3, 4, 5, 7, 8, 11, 16, 33]

# Settings by which the plans differ: few blocks, more blocks than bytes, blocks of odd sizes, no
# overlap, and much; each for numbers of processes with and without complete binary structure.
VARIANTS = {
    "one-block": {"BLOCKS": 1},
    "three-blocks": {"BLOCKS": 3},
    "17-blocks": {"BLOCKS": 17},
    "block-of-1000": {"BLOCK_SIZE": 1000},
    "block-of-64K-one-at-a-time": {"BLOCK_SIZE": "64K", "WINDOW": 1, "SENDS": 1},
    "wide-window": {"BLOCKS": 40, "WINDOW": 16, "SENDS": 8},
    "eager": {"BLOCKS": 9, "PACING": "eager"},
    "synchronous": {"BLOCKS": 9, "PACING": "synchronous"},
    "two-chunks": {"CHUNKS": 2, "BLOCKS": 5},
    "many-chunks": {"CHUNKS": 5, "BLOCK_SIZE": 300, "WINDOW": 3},
    "nodes-of-two": {"NODE_SIZE": 2},
    "nodes-of-two-widest-window": {"NODE_SIZE": 2, "WINDOW": 64, "SENDS": 64, "BLOCKS": 70},
    "nodes-of-two-cyclic": {"NODE_SIZE": 2, "PLACEMENT": "cyclic", "BLOCKS": 4},
    "nodes-of-three-shuffled": {"NODE_SIZE": 3, "PLACEMENT": "shuffled"},
    "nodes-of-four-one-block": {"NODE_SIZE": 4, "BLOCKS": 1, "SEGMENT": 3000},
}
# What leaders of nodes run.
BY_LEADERS = {"bcast", "reduce", "allgather", "allgatherv", "reduce_scatter_block", "reduce_scatter", "allreduce"}
# The same is run by lanes: of all processes of nodes that have as many, or of some of any nodes of several.
LANES = {operation.upper(): "lanes" for operation in BY_LEADERS}
HEADS_VARIANTS = {
    # On 8 processes the last node has two of them.
    "two-lanes-of-three": {"NODE_SIZE": 3, "LANES": 2, "BLOCKS": 7, **LANES},
    "two-lanes-of-three-cyclic-in-steps": {
        "NODE_SIZE": 3, "PLACEMENT": "cyclic", "LANES": 2, "SEGMENT": 3000, **LANES
    },
    "three-lanes-of-four-widest-window": {"NODE_SIZE": 4, "LANES": 3, "WINDOW": 64, "SENDS": 64, "BLOCKS": 70, **LANES},
}
LANES_VARIANTS = {
    "lanes-of-two": {"NODE_SIZE": 2, **LANES},
    "lanes-of-four-by-linear": {"NODE_SIZE": 4, "SKIPS": "linear", **LANES},
    "lanes-of-four-cyclic-in-steps": {"NODE_SIZE": 4, "PLACEMENT": "cyclic", "SEGMENT": 3000, **LANES},
    "lanes-of-two-widest-window": {"NODE_SIZE": 2, "WINDOW": 64, "SENDS": 64, "SEGMENT": 2000, **LANES},
}
VARIANTS |= LANES_VARIANTS | HEADS_VARIANTS
LANES_PROCESSES = [4, 8]
# What runs in memory that the processes of one node share.
SHARED = {operation.upper(): "shared" for operation in OPERATIONS}
SHARED_VARIANTS = {
    "shared": SHARED,
    # Slots of 4 KiB for 8 and of 8 KiB for 3 processes, so that calls take several steps.
    "shared-in-small-slots": {**SHARED, "SHARED_MAX": "64K"},
}
VARIANTS |= SHARED_VARIANTS
# What runs in memory that the processes of each node share; between nodes by their leaders.
SHARED_BY_NODES = {operation.upper(): "shared" for operation in BY_LEADERS}
SHARED_BY_NODES_VARIANTS = {
    "shared-nodes-of-two": {"NODE_SIZE": 2, **SHARED_BY_NODES},
    "shared-nodes-of-two-cyclic-in-small-slots": {
        "NODE_SIZE": 2, "PLACEMENT": "cyclic", "BLOCKS": 4, "SHARED_MAX": "16K", **SHARED_BY_NODES
    },
    "shared-nodes-of-three-shuffled": {"NODE_SIZE": 3, "PLACEMENT": "shuffled", **SHARED_BY_NODES},
    "shared-nodes-of-four-in-steps": {"NODE_SIZE": 4, "BLOCKS": 1, "SEGMENT": 3000, **SHARED_BY_NODES},
}
VARIANTS |= SHARED_BY_NODES_VARIANTS
VARIANT_PROCESSES = [3, 8]

# The operations and settings of the algorithms with one block.
ONE_BLOCK = ["allgather", "allgatherv", "reduce_scatter_block", "reduce_scatter"]
NOT_PIPELINED = ["allreduce", "alltoall", "gather", "scatter"]
ONE_BLOCK_VARIANTS = {
    "skips-power2": {"SKIPS": "power2", "BLOCKS": 1},
    "skips-sqrt": {"SKIPS": "sqrt", "BLOCKS": 1},
    "skips-linear": {"SKIPS": "linear", "BLOCKS": 1},
    "one-block-wide-window": {"BLOCKS": 1, "WINDOW": 16, "SENDS": 8},
    "one-block-in-steps": {"BLOCKS": 1, "SEGMENT": 3000},
    "one-block-synchronous": {"BLOCKS": 1, "PACING": "synchronous"},
    "no-census": {"CENSUS_MAX": 0},
    "always-census": {"CENSUS_MAX": "1G"},
}
VARIANTS |= ONE_BLOCK_VARIANTS
# Those of one operation alone.
ALLTOALL_VARIANTS = {
    "combining": {"ALLTOALL": "combining"},
    "combining-by-power2": {"ALLTOALL": "combining", "SKIPS": "power2"},
    "combining-by-sqrt": {"ALLTOALL": "combining", "SKIPS": "sqrt"},
    "pairwise": {"ALLTOALL": "pairwise"},
    "pairwise-in-steps": {"ALLTOALL": "pairwise,segment=300", "WINDOW": 3},
}
VARIANTS |= ALLTOALL_VARIANTS
ONE_BLOCK_PROCESSES = [5, 11]

# Programs that are not about one operation, and where they are worth running.
OTHERS = {
    "absolute": [1, 2, 5, 8],
    "allocation": [2, 3, 5, 8],
    "attributes": [1, 2, 5],
    "communicators": [1, 2, 3, 5, 8, 16],
    "intercommunicators": [2, 3, 5, 8],
    "pending": [1, 2, 3, 5, 8, 16],
    "threads": [1, 2, 3, 5],
}
# Programs with calls that go native although forced (elements that interleave), where MPIs crash.
TRAPPED = {"reduce", "reduce_c", "allreduce", "allreduce_c"}

# What is demanded of the library, but not of the MPI.
ARGUMENTS = {
    program + suffix: ["keep"]
    for program in ("reduce_scatter", "reduce_scatter_block")
    for suffix in ("", "_c")
}
ARGUMENTS["absolute"] = ["reduce"]

LARGE_COUNT_PROCESSES = [2, *repeated(1, 5)]


def has_large_counts(mpi):
    """Open MPI has them from version 6 on."""
    return mpi.family != "openmpi"



def without_effect(program):
    """Variants that are others again."""
    others = set() if program == "bcast" else {"two-chunks", "many-chunks"}
    if program in NOT_PIPELINED:
        others |= {"three-blocks", "17-blocks", "block-of-1000", "one-block"}
    else:
        others |= {"no-census", "always-census"}
    return others


def cases():
    for program in OPERATIONS:
        for processes in PROCESSES:
            yield program, processes, "default"
        special = ONE_BLOCK_VARIANTS | ALLTOALL_VARIANTS | LANES_VARIANTS | HEADS_VARIANTS
        others = ONE_BLOCK_VARIANTS if program in ONE_BLOCK + NOT_PIPELINED else {}
        if program == "alltoall":
            others = ONE_BLOCK_VARIANTS | ALLTOALL_VARIANTS
        for variant in sorted(VARIANTS.keys() - special.keys() - without_effect(program)):
            for processes in VARIANT_PROCESSES:
                yield program, processes, variant
        for variant in sorted(others.keys() - without_effect(program)):
            for processes in ONE_BLOCK_PROCESSES:
                yield program, processes, variant
        for variant, settings in LANES_VARIANTS.items():
            for processes in LANES_PROCESSES:
                if program in BY_LEADERS and settings["NODE_SIZE"] < processes:
                    yield program, processes, variant
        if program in BY_LEADERS:
            for variant in HEADS_VARIANTS:
                yield program, 8, variant
    for program, counts in OTHERS.items():
        for processes in counts:
            yield program, processes, "default"
            if program in ("communicators", "pending", "threads") and processes > 1:
                yield program, processes, "shared"


def grouped(program, processes, variant="default"):
    """One test case; those with the same native run go to the same worker."""
    marks = [pytest.mark.xdist_group(f"{program}-{processes}")]
    # How MPI finishes one of several transfers is its own.
    if variant not in ("default", "circulant", "two-chunks", "many-chunks"):
        marks.append(pytest.mark.any_mpi)
        # Of nodes of three and four, fewer processes are one node.
        most = 8 if VARIANTS.get(variant, {}).get("NODE_SIZE", 1) > 2 else 5
        if processes > most or not is_in_turn(program, variant):
            marks.append(pytest.mark.repeats)
    # Between 3, 5 and 8, and beyond, the simulator has every number.
    elif processes in (4, 11):
        marks.append(pytest.mark.repeats)
    name = f"{program}-{processes}-{variant}"
    return pytest.param(program, processes, variant, marks=marks, id=name)


def is_in_turn(program, variant):
    """Without --all, a variant is run by a third of the operations, and an operation is run in a third of the
    variants, and in those that are its own. The simulator has all of both."""
    if program not in OPERATIONS or variant not in VARIANTS or variant in ALLTOALL_VARIANTS:
        return True
    if program == "allreduce" and "census" in variant:
        return True
    return (OPERATIONS.index(program) + list(VARIANTS).index(variant)) % 3 == 0


def counted(stdout):
    """The calls that the program says it made: {operation: {outcome: calls}}."""
    lines = re.findall(r"^calls (\w+) (.*)$", stdout, re.MULTILINE)
    return {
        operation: {name: int(n) for name, n in (pair.split("=") for pair in outcomes.split())}
        for operation, outcomes in lines
    }


def digest(run):
    found = re.search(r"processes=(\d+) .*failures=0 digest=(\w+)", run.stdout)
    assert found, run.describe()
    return found.groups()


def compare(run, native):
    run.expect_success()
    assert run.stderr == "", run.describe()
    assert digest(run) == digest(native), run.describe()
    run.rows()
    assert run.report["processes"] == int(digest(run)[0])
    assert run.report["rank"] == 0


def run_by(algorithm, run):
    """The operations of which an algorithm has run calls."""
    return {row["operation"] for row in run.rows() if algorithm in row.get("algorithms", {})}


@pytest.mark.parametrize("program, processes, variant", [grouped(*case) for case in cases()])
def test_program(mpi, native_run, report, program, processes, variant):
    native = native_run(program, processes)
    settings = {"FORCE": 1, **VARIANTS.get(variant, {})}
    command = [mpi.program(program), *ARGUMENTS.get(program, [])]
    run = mpi.preloaded(processes, command, report, settings, trapped=program in TRAPPED)
    compare(run, native)
    outcomes = run.all_outcomes()
    is_on_one_node = settings.get("NODE_SIZE", processes) >= processes
    if is_on_one_node and variant in SHARED_VARIANTS | SHARED_BY_NODES_VARIANTS:
        # Elements that might have another layout on other processes are the MPI library's.
        for of in outcomes.values():
            of["circulant"] = of.get("circulant", 0) + of.pop("shared_memory", 0)
    expected = counted(run.stdout)
    assert {operation: of for operation, of in outcomes.items() if any(of.values())} == expected
    if 1 < settings.get("NODE_SIZE", 1) < processes:
        ours = set(run.all_outcomes())
        by_nodes = run_by("leaders", run) | run_by("lanes", run) | run_by("shared", run)
        assert by_nodes == ours & BY_LEADERS, run.describe()
        if variant in SHARED_BY_NODES_VARIANTS:
            assert run_by("shared", run) == ours & BY_LEADERS, run.describe()
        if variant in LANES_VARIANTS | HEADS_VARIANTS:
            assert run_by("lanes", run) == ours & BY_LEADERS, run.describe()
    if variant in SHARED_VARIANTS and processes > 1:
        assert run_by("shared", run) == set(run.all_outcomes()) & set(OPERATIONS), run.describe()


@pytest.mark.parametrize("processes", [1, *repeated(2), 3, *repeated(5)])
def test_handles_that_are_used_again(mpi, native_run, report, processes):
    """With more communicators at once than the library remembers without asking the MPI. Intel MPI
    fails an assertion of its own where collectives run on some 500 at once, so it gets fewer private ones."""
    native = native_run("handles", processes)
    settings = {"FORCE": 1, "COMMUNICATORS": 100 if mpi.family == "intelmpi" else 700}
    run = mpi.preloaded(processes, [mpi.program("handles")], report, settings)
    compare(run, native)
    outcomes = run.all_outcomes()
    without = outcomes["bcast"].pop("no_communicator", 0)
    assert (without > 0) == (mpi.family == "intelmpi" and processes > 1)
    if without:
        outcomes["bcast"]["circulant"] += without
    assert outcomes == counted(run.stdout)


def learning_cases():
    """Every number of processes, and every way to choose."""
    first = {("learn", 1), ("learn", 5), ("adaptive", 2), ("tune", 3)}
    more = [(select, processes) for select in ("learn", "adaptive") for processes in (1, 2, 3, 5, 8)]
    for case in sorted(first.union(more)):
        marks = [] if case in first else [pytest.mark.repeats]
        yield pytest.param(*case, marks=[*marks, pytest.mark.any_mpi] if case[0] == "adaptive" else marks)


@pytest.mark.parametrize("select, processes", [*learning_cases()])
def test_learning(mpi, report, select, processes):
    """All processes try the same candidates and make the same choice, or nobody would come to an end. Results
    are right all the while."""
    operations = ["bcast", "allgather", "allgatherv", "allreduce", "reduce", "reduce_scatter", "reduce_scatter_block"]
    operations += ["alltoall"]
    command = [mpi.program("sequence"), *(f"{operation}:4000000x8" for operation in operations)]
    settings = {"SELECT": select, "NODE_SIZE": 1, "TRACE": 1}
    run = mpi.preloaded(processes, command, report, settings, timeout=120).expect_success()
    assert "failures=0" in run.stdout
    for operation in operations:
        outcomes = run.outcomes(operation)
        if processes == 1:
            assert set(outcomes) == {"one_process"}
        else:
            assert set(outcomes) & {"trial", "measured", "circulant"}
            assert set(outcomes) <= {"cost_model", "trial", "measured", "circulant"}
    # Else a candidate waits until it can be afforded.
    if select == "tune":
        assert run.tried() == set(operations), run.describe()


def test_size_of_nodes(mpi, report):
    """By the cost model calls on one node run in shared memory; where each process is said to be a node, over a
    circulant graph what is large."""
    command = [mpi.program("sequence"), "bcast:32000000x2"]
    for settings, algorithm in [({}, "shared"), ({"NODE_SIZE": 1}, "circulant"), ({"NODE_SIZE": 5}, "shared")]:
        run = mpi.preloaded(5, command, report, {"SELECT": "model", **settings}).expect_success()
        assert "failures=0" in run.stdout
        assert run.outcomes("bcast") == {"circulant": 2}, run.describe()
        assert run_by(algorithm, run) == {"bcast"}


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_invalid_arguments(mpi, native_run, report, processes):
    """Every invalid call gets the error class that it gets natively, and the program goes on."""
    if mpi.build.name.startswith(("mpich-5", "mpiabi")):
        pytest.skip("MPICH 5.0 ends the program on one of them, by a failed assertion in MPI_Reduce")
    native = native_run("errors", processes)
    run = mpi.preloaded(processes, [mpi.program("errors")], report, {"FORCE": 1})
    compare(run, native)
    assert classes(run) and classes(run) == classes(native)
    for operation, of in run.all_outcomes().items():
        assert of["arguments"] > 0
        assert of.get("circulant", 0) == counted(run.stdout)[operation].get("circulant", 0)
        assert set(of) <= {"arguments", "circulant", "one_process"}


@pytest.mark.parametrize(
    "more",
    [{"CHUNKS": 1}, {"CHUNKS": 5}, SHARED, {"NODE_SIZE": 2, **SHARED_BY_NODES}],
    ids=["1", "5", "shared", "shared-by-nodes"],
)
@pytest.mark.parametrize("processes", [1, 2, 5, *repeated(8)])
def test_disagreements(mpi, report, processes, more):
    """What is wrong on one process leaves no other waiting, as it does natively, even where MPI does not look
    for it; sizes that differ are found where there is more than one process, but for messages between nodes."""
    # Leaders that disagree on the size may wait for ever, as processes of a flat graph may.
    finds_sizes = processes > 1 and "NODE_SIZE" not in more
    command = [mpi.program("disagreements"), *["sizes"] * finds_sizes]
    settings = {"FORCE": 1, **more}
    run = mpi.preloaded(processes, command, report, settings, timeout=60).expect_success()
    for operation, of in run.all_outcomes().items():
        assert set(of) <= {"arguments", "circulant", "one_process"}
        assert of.get("circulant" if processes > 1 else "one_process", 0) > 0, operation


@pytest.mark.parametrize("processes", [4, 5])
def test_disagreements_in_gray_order(mpi, report, processes):
    """A broadcast that only one process has not made is none: the next owner is the same for all."""
    settings = {"FORCE": 1, "BCAST_ORDER": "gray"}
    run = mpi.preloaded(processes, [mpi.program("disagreements")], report, settings, timeout=60).expect_success()
    ran = [row["algorithms"] for row in run.rows() if row["operation"] == "bcast" and "algorithms" in row]
    assert any("gray" in algorithms for algorithms in ran), run.describe()


@pytest.mark.parametrize("select, mode", [("tune", None), ("learn", "often"), ("learn", "jumping")])
@pytest.mark.parametrize("processes", [2, *on_any_mpi(5)])
def test_disagreements_while_learning(mpi, report, profile, processes, select, mode):
    """A process that is alone with wrong arguments can make its call again where the others try it, or have
    settled who runs it; also where its error handler jumps out of the call. (Natively, Open MPI's all-to-all takes
    input on top of its result, and the results are wrong.)"""
    settings = {"SELECT": select, "NODE_SIZE": 1, "MIN_BYTES": 0, "ALLTOALL": "circulant"}
    if select == "learn":
        # A network on which calls are predicted to take long: then a trial of each kind is affordable soon, also
        # on a busy machine.
        settings["PROFILE"] = profile(processes, 1000, 0.001)
    command = [mpi.program("disagreements"), *([mode] if mode else [])]
    run = mpi.preloaded(processes, command, report, settings, timeout=60).expect_success()
    for operation in ("allgather", "allgatherv", "allreduce", "reduce_scatter", "reduce_scatter_block"):
        assert run.outcomes(operation).get("trial", 0) > 0, run.describe()


def test_number_of_blocks_disagreed(mpi, report):
    """Blocks that a process did not expect are not taken for those of a later call."""
    settings = {"FORCE": 1, "BCAST_BLOCK_SIZE": 100, "PACING": "eager"}
    run = mpi.preloaded(2, [mpi.program("disagreements"), "blocks"], report, settings, timeout=60).expect_success()
    assert run.outcomes("bcast")["circulant"] > 0


def classes(run):
    return re.findall("^class .*", run.stdout, re.MULTILINE)


@pytest.mark.parametrize("processes", LARGE_COUNT_PROCESSES)
@pytest.mark.parametrize("program", [f"{program}_c" for program in OPERATIONS])
def test_large_count_functions(mpi, native_run, report, program, processes):
    """Also where the MPI has none: then the program finds circulant's, which leave what is not theirs to the
    plain functions."""
    native = native_run(program if has_large_counts(mpi) else program.removesuffix("_c"), processes)
    command = [mpi.program(program), *ARGUMENTS.get(program, [])]
    run = mpi.preloaded(processes, command, report, {"FORCE": 1}, trapped=program in TRAPPED)
    compare(run, native)
    assert run.all_outcomes() == counted(run.stdout)


@pytest.mark.parametrize("processes", LARGE_COUNT_PROCESSES)
def test_large_counts_that_go_native(mpi, report, processes):
    """Small calls, of all operations, through functions that the MPI may not have."""
    run = mpi.preloaded(processes, [mpi.program("large_c")], report).expect_success()
    assert "failures=0" in run.stdout and run.stderr == "", run.describe()
    outcome = "small" if processes > 1 else "one_process"
    calls = {operation: sum(of.values()) for operation, of in counted(run.stdout).items()}
    assert set(calls) == set(OPERATIONS)
    assert run.all_outcomes() == {operation: {outcome: made} for operation, made in calls.items()}


@pytest.mark.parametrize("processes", LARGE_COUNT_PROCESSES)
def test_large_counts_that_are_too_large(mpi, report, processes):
    """For an MPI without such functions: an error where the count means something."""
    if has_large_counts(mpi):
        pytest.skip("this MPI has large-count functions")
    command = [mpi.program("large_c"), "too-large"]
    native = mpi.native(processes, command)
    assert native.status == 77 and "there is no MPI_Bcast_c" in native.stderr, native.describe()
    run = mpi.preloaded(processes, command, report, {"DISABLE": 1}).expect_success()
    assert "failures=0" in run.stdout and run.stderr == "", run.describe()
    assert set(run.all_outcomes()) == set(OPERATIONS)
    outcome = "disabled" if processes > 1 else "one_process"
    assert all(set(of) == {outcome} for of in run.all_outcomes().values())


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_calls_in_finalize(mpi, native_run, report, processes):
    """Calls that a program makes in MPI_Finalize work; the report may be written already."""
    native = native_run("finalize", processes)
    run = mpi.preloaded(processes, [mpi.program("finalize")], report, {"FORCE": 1})
    compare(run, native)
    outcome = "circulant" if processes > 1 else "one_process"
    for operation in OPERATIONS:
        assert run.outcomes(operation) in ({outcome: 1}, {outcome: 2})


@pytest.fixture
def sessions(mpi):
    """The program of MPI-4 sessions, where the MPI has them."""
    if mpi.build.name.startswith("openmpi-4"):
        pytest.skip("Open MPI 4.1 has no sessions")
    return mpi.program("sessions")


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_sessions(mpi, native_run, sessions, processes):
    """Without MPI_COMM_WORLD the library is there, and leaves every call to the MPI. No report: nothing
    says when the program ends. Intel MPI has MPI_COMM_WORLD all the same."""
    native = native_run("sessions", processes)
    environment = {"CIRCULANT_FORCE": "1"}
    run = mpi.run(processes, [sessions], mpi.library, environment).expect_success()
    assert digest(run) == digest(native)
    assert run.stderr == "", run.describe()
    ours = 20 * len(OPERATIONS) if mpi.family == "intelmpi" and processes > 1 else 0
    assert ("\nours " in native.stdout, f"\nours {ours}\n" in run.stdout) == (False, True), run.describe()


@pytest.mark.parametrize("processes", [2, 3])
def test_sessions_before_init(mpi, sessions, report, processes):
    """Once a session has made a communicator, MPI_Init has no barrier in MPICH 5: that a process has circulant is known
    before. With Open MPI 5 it is not known, and all calls are the MPI's."""
    native = mpi.native(processes, [sessions, "before"]).expect_success()
    run = mpi.preloaded(processes, [sessions, "before"], report, {"FORCE": 1}, timeout=60).expect_success()
    assert digest(run) == digest(native)
    outcome = "not_everywhere" if mpi.family == "openmpi" else "circulant"
    assert all(set(of) == {outcome} for of in run.all_outcomes().values()), run.describe()


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_sessions_beside_init(mpi, sessions, report, processes):
    """Where the program has MPI_COMM_WORLD as well, a session's communicators are served as any."""
    native = mpi.native(processes, [sessions, "initialized"]).expect_success()
    run = mpi.preloaded(processes, [sessions, "initialized"], report, {"FORCE": 1})
    compare(run, native)
    assert run.all_outcomes() == counted(run.stdout)


@pytest.mark.parametrize("processes", [*repeated(2), 3])
@pytest.mark.parametrize(
    "case, ours",
    [
        ("elements", {"reduce": 7, "reduce_scatter_block": 14}),
        ("aligned", {"allreduce": 1}),
        ("wide", {"allreduce": 1}),
        ("empty", {"reduce_scatter": 1}),
        ("large", {"bcast": 3}),
    ],
)
def test_corners(mpi, report, case, ours, processes):
    """Natively, not every MPI survives these."""
    if case == "large" and mpi.family == "openmpi":
        pytest.skip("Open MPI has no large counts before version 6")
    run = mpi.preloaded(processes, [mpi.program("corners"), case], report, {"FORCE": 1})
    run.expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {name: {"circulant": calls} for name, calls in ours.items()}


@pytest.mark.parametrize("blocks", [3, 30])
def test_results_that_are_put_aside(mpi, report, blocks):
    """How many blocks there would be decides what scratch a call needs, but not whether it is circulant's: in place, more
    blocks leave room for the result beside it."""
    settings = {"FORCE": 1, "REDUCE_SCATTER_BLOCKS": blocks, "SCRATCH_MAX": "512K"}
    run = mpi.preloaded(4, [mpi.program("corners"), "aside"], report, settings).expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {"reduce_scatter": {"circulant": 1}}


@pytest.mark.parametrize("processes", [2, 3])
def test_pending_duplication(mpi, report, processes):
    """On Open MPI, which would mix it up with the duplication, no private communicator is made meanwhile."""
    command = [mpi.program("corners"), "duplicate"]
    mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1}).expect_success()
    assert "failures=0" in run.stdout
    meanwhile = {"no_communicator": 20} if mpi.family == "openmpi" else {}
    assert run.outcomes("bcast") == {"circulant": 60 - sum(meanwhile.values()), **meanwhile}


@pytest.mark.parametrize("before", [[], ["aligned"]], ids=["first", "later"])
@pytest.mark.parametrize("processes", [3, 5])
def test_duplication_of_another_communicator(mpi, report, processes, before):
    """It waits for a process that waits for a call. With Open MPI, a private communicator for that call would wait for
    the duplication. So the call is native, and the next one, after the duplication, is not. `before` is a call on
    MPI_COMM_WORLD, for which another private communicator is made."""
    command = [mpi.program("corners"), *before, "elsewhere"]
    mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1}, timeout=30).expect_success()
    assert "failures=0" in run.stdout
    meanwhile = {"no_communicator": 1} if mpi.family == "openmpi" else {}
    expected = {"circulant": len(before) + 2 - len(meanwhile), **meanwhile}
    assert run.outcomes("allreduce") == expected


@pytest.mark.parametrize("processes", [2, 5, *repeated(1, 3, 8)])
@pytest.mark.parametrize("program", ["fortran_mpif", "fortran_mpi", "fortran_f08"])
def test_fortran(mpi, native_run, report, program, processes):
    """Through each of Fortran's interfaces: MPICH's bindings call MPI_X, Open MPI's PMPI_X."""
    if not mpi.program(program).exists():
        pytest.skip("this MPI has no such interface for this Fortran compiler")
    native = native_run(program, processes)
    assert "failures=0\n" in native.stdout, native.describe()
    run = mpi.preloaded(processes, [mpi.program(program)], report, {"FORCE": 1})
    run.expect_success()
    assert run.stdout == native.stdout, run.describe()
    calls = dict(re.findall(r"^calls (\w+) (\d+)$", run.stdout, re.MULTILINE))
    assert sorted(calls) == sorted(OPERATIONS)
    outcome = "circulant" if processes > 1 else "one_process"
    assert run.all_outcomes() == {name: {outcome: int(n)} for name, n in calls.items()}


def test_spawned_processes(mpi, report):
    """A job that MPI_Comm_spawn starts is served, too, and its report replaces nobody's. What the two
    do together is left to the MPI: each may have been started without the library."""
    native = mpi.native(2, [mpi.program("spawn")], spawns=True)
    # Debian's MPICH 4.0.2 fails in PMI, with or without a word of it reaching the output.
    if mpi.family != "openmpi" and native.status != 0:
        pytest.skip("this MPI's launcher starts no processes for programs")
    native.expect_success()
    run = mpi.preloaded(2, [mpi.program("spawn")], report, {"FORCE": 1}, spawns=True)
    run.expect_success()
    assert len(re.findall("failures=0", run.stdout)) == 2
    (other,) = report.parent.glob(report.name + ".spawned-*")
    children = run.with_report(other)
    assert (run.report["processes"], children.report["processes"]) == (2, 3)
    for job in (run, children):
        expected = {"circulant": 1, "other_job": 1}
        assert job.all_outcomes() == {operation: expected for operation in OPERATIONS}


def test_spawned_processes_without_the_library(mpi, report):
    """circulant run preloads it for the one program, so what that starts does not have it."""
    native = mpi.native(2, [mpi.program("spawn")], spawns=True)
    if mpi.family != "openmpi" and native.status != 0:
        pytest.skip("this MPI's launcher starts no processes for programs")
    launcher = [mpi.build / "circulant", "run", "--set", "FORCE=1"]
    command = [*launcher, "--report", report, mpi.program("spawn")]
    run = mpi.native(2, command, spawns=True).expect_success().with_report(report)
    assert len(re.findall("failures=0", run.stdout)) == 2
    expected = {"circulant": 1, "other_job": 1}
    assert run.all_outcomes() == {operation: expected for operation in OPERATIONS}


@pytest.mark.parametrize("processes", [2, 3])
def test_out_of_communicators(mpi, native_run, report, processes):
    """Where no private communicator may be made any more, calls go native and work: the library
    leaves MPICH's some 2,000 context ids to the program, and keeps to the same bound everywhere."""
    native = native_run("exhaustion", processes)
    run = mpi.preloaded(processes, [mpi.program("exhaustion")], report, {"FORCE": 1})
    compare(run, native)
    made = counted(run.stdout)
    for operation, outcomes in run.all_outcomes().items():
        assert outcomes["circulant"] >= 32
        assert set(outcomes) <= {"circulant", "no_communicator"}
        assert sum(outcomes.values()) == made[operation]["circulant"]
        assert outcomes["no_communicator"] > 0


def test_settings_are_the_jobs(mpi, native_run, report):
    """Those of rank 0 of MPI_COMM_WORLD, also on communicators whose rank 0 is another process."""
    native = native_run("communicators", 5)
    only_rank_0 = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 0 ] || export CIRCULANT_FORCE=1; exec "$0"'
    run = mpi.preloaded(5, ["sh", "-c", only_rank_0, mpi.program("communicators")], report)
    compare(run, native)
    assert run.all_outcomes() == counted(run.stdout)


# How often each takes q = 3 rounds.
PHASES = {"allreduce": 2, "alltoall": 1, "gather": 1, "scatter": 1}


@pytest.mark.any_mpi
@pytest.mark.parametrize("operation", NOT_PIPELINED)
@pytest.mark.parametrize("skips, each", [("halving", 3), ("power2", 3), ("sqrt", 3), ("linear", 4)])
def test_rounds_of_one_block(mpi, report, operation, skips, each):
    calls = 3
    run = mpi.preloaded(
        5,
        [mpi.program("sequence"), f"{operation}:100000x{calls}"],
        report,
        {"FORCE": 1, "SKIPS": skips, "SEGMENT": "1G", "ALLTOALL": "combining"},
    ).expect_success()
    (row,) = run.rows()
    assert (row["calls"], row["bytes"], row["blocks"]) == (calls, calls * 100000, calls)
    assert row["rounds"] == calls * each * PHASES[operation]


@pytest.mark.any_mpi
@pytest.mark.parametrize("bytes_, steps", [(100000, 1), (400000, 3)])
def test_rounds_of_pairwise(mpi, report, bytes_, steps):
    """Of 5 processes, each sends the four others a block, in steps of 32 KiB."""
    command = [mpi.program("sequence"), f"alltoall:{bytes_}x3"]
    run = mpi.preloaded(5, command, report, {"ALLTOALL": "pairwise"}).expect_success()
    assert "failures=0" in run.stdout
    (row,) = run.rows()
    assert row["algorithms"].keys() == {"pairwise"}
    assert row["rounds"] == 3 * 4 * steps


@pytest.mark.any_mpi
def test_small_allreduce_takes_fewer_rounds(mpi, report):
    """Of integers: 3 rounds for 5 processes. Others are summed block by block, or ranks would differ."""
    settings = {"FORCE": 1, "CENSUS_MAX": 1000}
    calls = ["allreduce:1000x10", "allreduce:1004x10", "allreduce-vector:400x10"]
    run = mpi.preloaded(5, [mpi.program("sequence"), *calls], report, settings).expect_success()
    (row,) = run.rows()
    assert (row["calls"], row["rounds"]) == (30, 10 * 3 + 20 * 6)


@pytest.mark.any_mpi
@pytest.mark.parametrize("ints, segment, scratch", [(501, 400, 1250), (5001, 4000, 12500), (20481, 1600, 50000)])
def test_allreduce_in_pieces(mpi, report, ints, segment, scratch):
    """Where scratch is short; pieces differ by an element, which may make a step hold one block more."""
    settings = {"FORCE": 1, "CENSUS_MAX": 0, "SEGMENT": segment, "SCRATCH_MAX": scratch}
    command = [mpi.program("sequence"), f"allreduce:{4 * ints}x3", f"allreduce:{4 * ints + 4}x3"]
    run = mpi.preloaded(5, command, report, settings).expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {"allreduce": {"circulant": 6}}


@pytest.mark.any_mpi
@pytest.mark.parametrize("algorithm", ["leaders", "lanes"])
def test_reduce_scatter_in_blocks(mpi, report, algorithm):
    """Where scratch does not hold what passes leaders in one block. The last node has a process less."""
    settings = {"NODE_SIZE": 3, "REDUCE_SCATTER": algorithm, "SCRATCH_MAX": 400_000}
    command = [mpi.program("sequence"), "reduce_scatter:160000x3"]
    run = mpi.preloaded(5, command, report, settings).expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == {"reduce_scatter": {"circulant": 3}}
    assert run_by(algorithm, run) == {"reduce_scatter"}


@pytest.mark.any_mpi
@pytest.mark.parametrize("operation", [op for op in OPERATIONS if op not in NOT_PIPELINED])
def test_rounds_and_blocks(mpi, report, operation):
    """The report's rounds are those of the algorithm: n - 1 + q with the n blocks that were set."""
    processes, blocks, calls = 5, 7, 3
    run = mpi.preloaded(
        processes,
        [mpi.program("sequence"), f"{operation}:100000x{calls}"],
        report,
        {"FORCE": 1, "BLOCKS": blocks},
    ).expect_success()
    (row,) = run.rows()
    assert row["calls"] == calls
    assert row["bytes"] == calls * 100000
    assert row["blocks"] == calls * blocks
    assert row["rounds"] == calls * (blocks - 1 + 3)


@pytest.mark.any_mpi
@pytest.mark.parametrize("settings, outcome", [({"FORCE": 1}, "circulant"), ({"DISABLE": 1}, "disabled")])
def test_seconds_of_calls(mpi, report, settings, outcome):
    """Those of rank 0, which waits for the others in the second call: whoever runs it."""
    command = [mpi.program("sequence"), "allreduce:100000", "late:1000", "allreduce:100000"]
    run = mpi.preloaded(3, command, report, settings).expect_success()
    assert run.outcomes("allreduce") == {outcome: 2}
    (row,) = run.rows()
    # The others may have left the first call a while before rank 0.
    assert 0.6 <= row["seconds"] <= run.seconds
