"""Around the calls: other tools, MPI_Pcontrol, communicators and processes that come and go, what
an MPI library does inside itself, and memory that is not the host's.
"""

import pathlib
import re

import pytest

from cases import repeated
from launch import OPERATIONS
from test_programs import SHARED, SHARED_BY_NODES, compare, counted

PROCESSES = [1, *repeated(2), 3, *repeated(5)]


def outcome_on(processes):
    return "circulant" if processes > 1 else "one_process"


def stated(run):
    """What the program says should become of its calls: the harness' count, and of that, of each
    operation, what the program knows better."""
    outcomes = counted(run.stdout)
    instead = re.findall(r"^instead (\w+) (\w+) (\d+)$", run.stdout, re.MULTILINE)
    for usual, reason, calls in instead:
        for of in outcomes.values():
            of[usual] = of.get(usual, 0) - int(calls)
            of[reason] = of.get(reason, 0) + int(calls)
    return {
        operation: {name: calls for name, calls in of.items() if calls != 0}
        for operation, of in outcomes.items()
    }


def number(name, run):
    found = re.search(rf"^{name}=(\d+)$", run.stdout, re.MULTILINE)
    assert found, run.describe()
    return int(found.group(1))


@pytest.fixture(params=["before", "behind"])
def libraries(mpi, request):
    """circulant and the counting tool, in either order of preloading."""
    both = [mpi.program("libcounter.so"), mpi.library]
    return both if request.param == "before" else both[::-1]


def seen_by_tool(run):
    return {name: int(n) for name, n in re.findall(r"^tool (\w+) (\d+)$", run.stdout, re.MULTILINE)}


@pytest.mark.parametrize("processes", PROCESSES)
def test_tool(mpi, report, libraries, processes):
    """The tool sees every call once, and circulant runs it."""
    made = {operation: times for times, operation in enumerate(OPERATIONS, start=1)}
    calls = [f"{operation}:40000x{times}" for operation, times in made.items()]
    command = [mpi.program("sequence"), *calls]
    run = mpi.preloaded(processes, command, report, {"FORCE": 1}, library=libraries)
    run.expect_success()
    assert "failures=0" in run.stdout
    assert seen_by_tool(run) == {**made, "pcontrol": 0}
    outcome = outcome_on(processes)
    assert run.all_outcomes() == {name: {outcome: times} for name, times in made.items()}


@pytest.mark.parametrize("processes", PROCESSES)
def test_pcontrol(mpi, native_run, report, processes):
    native = native_run("pcontrol", processes)
    run = mpi.preloaded(processes, [mpi.program("pcontrol")], report, {"FORCE": 1})
    compare(run, native)
    assert run.all_outcomes() == stated(run)
    assert all(of["switched_off"] > 0 for of in run.all_outcomes().values())


@pytest.mark.parametrize("keeps", [False, True])
def test_pcontrol_with_tool(mpi, native_run, report, libraries, keeps, monkeypatch):
    """MPI_Pcontrol is the tool's as well; calls that are not circulant's are still seen by it. A tool
    that keeps it to itself must not come first."""
    if keeps:
        if libraries[0] != mpi.library:
            pytest.skip("circulant does not hear of it")
        monkeypatch.setenv("TOOL_KEEPS_PCONTROL", "1")
    native = native_run("pcontrol", 3)
    command = [mpi.program("pcontrol")]
    run = mpi.preloaded(3, command, report, {"FORCE": 1}, library=libraries)
    compare(run, native)
    outcomes = run.all_outcomes()
    assert outcomes == stated(run)
    made = {operation: sum(of.values()) for operation, of in outcomes.items()}
    assert seen_by_tool(run) == {**made, "pcontrol": number("switches", run)}


@pytest.fixture
def lifecycle(mpi, report):
    """lifecycle(processes, mode): a native run and one under the library, with the same results."""

    def run(processes, mode):
        command = [mpi.program("lifecycle"), mode]
        native = mpi.native(processes, command).expect_success()
        run = mpi.preloaded(processes, command, report, {"FORCE": 1}, trapped=mode == "many")
        compare(run, native)
        return native, run

    return run


@pytest.mark.parametrize("processes", PROCESSES)
@pytest.mark.parametrize("mode", ["ending", "fork", "free", "self"])
def test_lifecycle(lifecycle, mode, processes):
    _, run = lifecycle(processes, mode)
    assert run.all_outcomes() == counted(run.stdout)


@pytest.mark.parametrize("processes", [2, *repeated(3)])
@pytest.mark.parametrize("mode", ["threads", "operator"])
@pytest.mark.parametrize("settings", [{"FORCE": 1, "NODE_SIZE": 1}, {}], ids=["forced", "default"])
def test_error_handlers_are_the_programs(mpi, report, settings, mode, processes):
    """circulant has errors of its own calls on a communicator returned. What the program does with error handlers in
    the middle of a collective comes to what it does natively."""
    command = [mpi.program("handlers"), mode]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, settings)
    compare(run, native)
    # By default an operator of the program's runs in shared memory at once.
    calls, by_default = {"threads": (4, "one_node"), "operator": (1, "circulant")}[mode]
    assert run.outcomes("allreduce") == {"circulant" if settings else by_default: calls}


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("mode", ["throw", "jump", "free"])
def test_error_handler_leaves(mpi, report, mode, processes, monkeypatch):
    """Where an error handler throws, jumps or frees the communicator, the program sees what it sees
    natively. What is freed is overwritten, so that nobody can use it."""
    if mpi.build.name.startswith("mpich-5"):
        pytest.skip("MPICH 5 ends the program natively: it looks at the datatype before it checks the handle")
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    command = [mpi.program("exceptions"), mode]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1})
    compare(run, native)
    made = counted(run.stdout)
    assert run.outcomes("bcast")[outcome_on(processes)] == made["bcast"][outcome_on(processes)]


def test_exception_leaves_an_operator(mpi, report):
    """The job ends and says why, since transfers of the call are under way."""
    command = [mpi.program("exceptions"), "operator"]
    run = mpi.preloaded(3, command, report, {"FORCE": 1}, timeout=60)
    assert run.status not in (0, None), run.describe()
    assert "circulant: an exception of the program has left a call in its middle on rank" in run.stderr
    assert "has left the call" not in run.stdout, run.describe()


def test_short_lived_communicators(mpi, report):
    """More, one after the other, than MPICH has room for: nothing stays behind of those before."""
    command = [mpi.program("lifecycle"), "short-lived"]
    run = mpi.preloaded(2, command, report, {"FORCE": 1}).expect_success()
    assert "failures=0" in run.stdout
    assert run.stderr == "", run.describe()
    assert run.outcomes("bcast") == {"circulant": 6000}
    assert run.all_outcomes() == counted(run.stdout)


def test_age(mpi, report):
    """Memory and open files level off, with 200 communicators that come and go. (scripts/age is the long run.)"""
    settings = {"FORCE": 1, "COMMUNICATORS": 200}
    run = mpi.preloaded(2, [mpi.program("age"), 3000], report, settings).expect_success()
    assert "failures=0" in run.stdout
    assert run.all_outcomes() == counted(run.stdout)
    held = re.findall(r"^age medley=\d+ calls=\d+ kilobytes=(\d+) files=(\d+)$", run.stdout, re.MULTILINE)
    kilobytes, files = zip(*((int(memory), int(open_files)) for memory, open_files in held))
    half = len(held) // 2
    assert kilobytes[-1] < 1.1 * kilobytes[half], kilobytes
    assert max(files[half:]) == files[half], files


@pytest.mark.parametrize("processes", [1, 2, *repeated(3)])
def test_many_communicators(lifecycle, processes):
    """The program may have as many as without the library; calls on the first of them are ours, and
    those make room for others when they are freed."""
    native, run = lifecycle(processes, "many")
    alive = number("communicators", run)
    assert alive == number("communicators", native)
    ours = int(run.report["settings"]["CIRCULANT_COMMUNICATORS"])
    assert 0 < ours < alive
    # Each is used twice, and one more once after all were freed.
    expected = {"circulant": 2 * ours + 1, "no_communicator": 2 * (alive - ours)}
    if processes == 1:
        expected = {"one_process": 2 * alive + 1}
    assert run.all_outcomes() == {"bcast": expected, "allreduce": expected}


@pytest.mark.parametrize("processes", [2, *repeated(3)])
def test_the_first_call_beside_many_communicators(lifecycle, processes):
    """A program that has left no room for one more has made no call yet: its first one works, as natively, and
    later ones are circulant's, once there is room."""
    _, run = lifecycle(processes, "crowded")
    for outcomes in run.all_outcomes().values():
        assert sum(outcomes.values()) == 2
        assert set(outcomes) <= {"circulant", "no_communicator"} and outcomes["circulant"] >= 1


@pytest.mark.parametrize("processes", [*repeated(2), 3, *repeated(5)])
def test_abort_in_an_operator(mpi, report, processes):
    """With several blocks the job ends in the middle of circulant's reduction."""
    command = [mpi.program("lifecycle"), "abort"]
    native = mpi.native(processes, command, timeout=60)
    assert native.status not in (0, None), native.describe()
    settings = {"FORCE": 1, "BLOCKS": 16, "TRACE": 1}
    run = mpi.preloaded(processes, command, report, settings, timeout=60)
    assert run.status not in (0, None), run.describe()
    # What ran before the reduction on the same data says who ran that.
    assert re.search(r"^circulant: reduce #1 .* -> circulant n=16", run.stderr, re.MULTILINE)


@pytest.mark.parametrize("processes", PROCESSES)
def test_inside_the_mpi(mpi, report, tmp_path, processes):
    """The program's calls are all circulant's; inner ones that come by are counted besides."""

    def command(name):
        return [mpi.program("internal"), tmp_path / name]

    native = mpi.native(processes, command("native")).expect_success()
    run = mpi.preloaded(processes, command("preloaded"), report, {"FORCE": 1})
    compare(run, native)
    assert (tmp_path / "preloaded").stat().st_size == (tmp_path / "native").stat().st_size > 0
    made = counted(run.stdout)
    assert set(made) == set(OPERATIONS)
    for operation, of in made.items():
        found = run.outcomes(operation)
        assert all(found.get(name, 0) >= calls for name, calls in of.items()), (of, found)


@pytest.mark.parametrize("processes", PROCESSES)
def test_device_memory(mpi, native_run, report, processes):
    """Circulant does not touch it (the stub would end the program), and leaves the call to the MPI
    library on all ranks."""
    native = native_run("device", processes)
    run = mpi.preloaded(processes, [mpi.program("device")], report, {"FORCE": 1}, trapped=True)
    compare(run, native)
    assert run.all_outcomes() == counted(run.stdout)
    assert asked(run) > asked(native) if processes > 1 else asked(run) == asked(native)


def asked(run):
    """How often the driver was asked about an address on rank 0."""
    return int(re.search(r"^asked (\d+)$", run.stdout, re.MULTILINE).group(1))


@pytest.mark.parametrize("processes", [2, *repeated(5)])
def test_no_devices_by_setting(mpi, report, processes):
    """GPU=0: no buffer is asked about. That is the program's word that there are none on a device."""
    settings = {"FORCE": 1, "GPU": 0}
    command = [mpi.program("device"), "host"]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, settings)
    compare(run, native)
    assert run.all_outcomes() == {operation: {"circulant": 2} for operation in OPERATIONS}
    assert asked(run) == asked(native)
    run = mpi.preloaded(processes, [mpi.program("device")], report, settings, trapped=True)
    assert run.status not in (0, None)
    assert "circulant touched device memory" in run.stderr, run.describe()


CHECKED = {"CHECK": 1, "CHECK_OPERATORS": 1}


@pytest.mark.parametrize(
    "more",
    [{}, {"NODE_SIZE": 2}, SHARED, {"NODE_SIZE": 2, **SHARED_BY_NODES}, CHECKED],
    ids=["messages", "nodes", "shared", "shared-by-nodes", "checked"],
)
@pytest.mark.parametrize("processes", [3, *repeated(5)])
def test_freed_meanwhile(mpi, report, processes, more):
    """Operators that free themselves; and operators and datatypes that a thread frees during a call, where the MPI
    can do that natively (MPICH asks a datatype about itself when its message has arrived; Open MPI on three processes,
    but not always on five)."""
    command = [mpi.program("freed"), *(["thread"] if mpi.family == "openmpi" and processes == 3 else [])]
    run = mpi.preloaded(processes, command, report, {"FORCE": 1, **more})
    compare(run, mpi.native(processes, command).expect_success())
    for operation in ("allreduce", "reduce", "reduce_scatter_block"):
        assert set(run.outcomes(operation)) == {"circulant"}, run.describe()


@pytest.mark.parametrize("processes", [3, *repeated(5)])
def test_freed_in_a_trial(mpi, report, processes):
    """Of the MPI library: what a thread frees while this process waits for the others, the call has yet to use."""
    if mpi.family != "openmpi":
        pytest.skip("MPICH asks a datatype about itself when its message has arrived")
    command = [mpi.program("freed"), "thread"]
    run = mpi.preloaded(processes, command, report, {"SELECT": "tune", "NODE_SIZE": 1})
    compare(run, mpi.native(processes, command).expect_success())
    assert run.outcomes("allreduce").get("trial", 0) > 0, run.describe()


@pytest.mark.parametrize("processes", PROCESSES)
@pytest.mark.parametrize("when", ["before", "later"])
def test_driver_is_loaded_by_the_program(mpi, report, when, processes):
    """Before the first collective call; or after it, for communicators that are made later."""
    command = [mpi.program("driver"), when, mpi.program("libcuda.so.1")]
    native = mpi.native(processes, command).expect_success()
    run = mpi.preloaded(processes, command, report, {"FORCE": 1})
    compare(run, native)
    assert run.all_outcomes() == counted(run.stdout)


def test_driver_is_loaded_too_late(mpi, report):
    """As documented: what a communicator's first call did not find is not looked for again."""
    if pathlib.Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a device, so the driver is expected")
    command = [mpi.program("driver"), "same", mpi.program("libcuda.so.1")]
    run = mpi.preloaded(2, command, report, {"FORCE": 1}).expect_success()
    assert set(counted(run.stdout)["bcast"]) == {"circulant", "device_memory"}
    assert run.outcomes("bcast") == {"circulant": sum(counted(run.stdout)["bcast"].values())}
