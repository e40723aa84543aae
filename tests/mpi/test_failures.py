"""Processes that fail. On MPIs that can, others go on without them, as ULFM asks (revoked.c). On all, a job
of which a process is killed ends as soon as natively, and one of which a process is stopped, or whose network
loses packets or a host for some time, goes on."""

import concurrent.futures
import os
import pathlib
import re
import signal
import time
import warnings

import pytest

from cases import repeated
from launch import IMPOSSIBLE
from test_programs import BY_LEADERS, LANES, SHARED, SHARED_BY_NODES

# Of 33: the first on a communicator and in the middle; on a duplicate; the first on one that was split.
CALLS = [0, 3, 14, 22]


def survivors(run):
    found = re.search(r"^survivors (\d+) of (\d+), errors (\d+), circulant (\d+)$", run.stdout, re.MULTILINE)
    assert found, run.describe()
    return [int(number) for number in found.groups()]


def surviving_program(mpi):
    program = mpi.program("revoked")
    if mpi.family != "openmpi" or not program.exists():
        pytest.skip("an MPI that does not go on after a failure")
    return program


# Where a process dies while others make a communicator, Open MPI 5.0.11 may end them: so ended 10 of 25 native jobs
# that made communicators all the time.
CRASH_OF_OPEN_MPI = re.compile(r"Segmentation fault.*ompi_comm_revoke_local.*ompi_comm_activate", re.DOTALL)


def run_without(mpi, report, settings, processes, *arguments, fault=None):
    """A run in which a process is killed, and all others come to the end of circulant's part of MPI_Finalize. (In
    Open MPI's part, the launcher's barrier may not end for anybody, and the launcher may stay: natively, too.)"""
    command = ["--with-ft", "ulfm", "env", *(fault or []), surviving_program(mpi), *arguments]
    library = [mpi.library, mpi.build / "tests" / "libfault.so"] if fault else None
    for _ in range(5):
        run = mpi.preloaded(processes, command, report, settings, library=library, timeout=25)
        if not CRASH_OF_OPEN_MPI.search(run.stderr):
            break
        warnings.warn(f"Open MPI crashed: {run.describe()}")
    left, before, errors, ours = survivors(run)
    assert (left, before) == (processes - 1, processes) and errors >= 1, run.describe()
    finalized = len(re.findall("^finalized ", run.stdout, re.MULTILINE))
    waiting = re.findall("^waits in (.*) < .*ompi_mpi_finalize", run.stdout, re.MULTILINE)
    assert not any("libcirculant" in functions for functions in waiting), run.describe()
    assert finalized + len(waiting) >= processes - 1, run.describe()
    return run, ours


@pytest.mark.parametrize("microseconds", [0, 300, 3000], ids=lambda time: f"after-{time}-us")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("processes, victim", [(3, 0), (4, 1), (6, 2), (9, 5), (16, 15)])
def test_survivors_of_a_failure(mpi, report, processes, victim, call, microseconds):
    """Every survivor finishes all calls, with right results, most of them by circulant: also who waits, in a
    call, for a process that lives and has left it with an error."""
    run, ours = run_without(mpi, report, {"FORCE": 1}, processes, victim, call, microseconds)
    assert ours >= 10, run.describe()


# Without one of six processes, nodes of three still have lanes, and leaders.
NODES = {"FORCE": 1, "NODE_SIZE": 3}


@pytest.mark.parametrize("processes, victim, call", [*((6, 2, call) for call in CALLS), (9, 4, 3), (12, 11, 14)])
@pytest.mark.parametrize(
    "settings, is_shown",
    [
        ({"SELECT": "tune"}, lambda row: row.get("reason") == "trial"),
        ({"FORCE": 1, "CHECK": 1}, lambda row: row.get("checked")),
        ({**NODES, "BCAST": "leaders", "ALLREDUCE": "leaders"}, lambda row: "leaders" in row.get("algorithms", {})),
        ({**NODES, "BCAST": "lanes", "ALLREDUCE": "lanes"}, lambda row: "lanes" in row.get("algorithms", {})),
        ({"FORCE": 1, **SHARED}, lambda row: "shared" in row.get("algorithms", {})),
        ({**NODES, "BCAST": "shared", "ALLREDUCE": "shared"}, lambda row: "shared" in row.get("algorithms", {})),
    ],
    ids=["trials", "checks", "leaders", "lanes", "shared", "shared-by-nodes"],
)
def test_survivors_where_circulant_does_more(mpi, report, settings, is_shown, processes, victim, call):
    """The same where calls are trials, are checked, or are run by leaders or lanes: then collectives of circulant's own
    are under way. And where they run in shared memory, in which nobody hears of a failure. (By default all calls of this
    program are native.) Rank 0 is alive, and has the report."""
    run, _ = run_without(mpi, report, settings, processes, victim, call, 300)
    assert any(is_shown(row) for row in run.rows()), run.describe()


MODES_OF_ALGORITHMS = {
    "forced": {"FORCE": 1},
    "on-nodes": {"NODE_SIZE": 1, "MIN_BYTES": 1000},
    "learning": {"SELECT": "tune"},
    "checks": {"FORCE": 1, "CHECK": 1},
    "leaders": {**NODES, **{operation.upper(): "leaders" for operation in BY_LEADERS}},
    "lanes": {**NODES, **LANES},
    "shared": {"FORCE": 1, **SHARED},
    "shared by nodes": {**NODES, **SHARED_BY_NODES},
}


def took_part(run, ours):
    """Whether circulant ran calls, or took the time of native ones in trials: those come first."""
    return ours > 0 or any(row.get("reason") == "trial" for row in run.rows())


@pytest.mark.parametrize("microseconds", [0, 300])
@pytest.mark.parametrize("processes, victim, call", [(6, 2, 0), (6, 2, 4), (9, 0, 16), (3, 1, 8), (16, 15, 30)])
@pytest.mark.parametrize("mode", MODES_OF_ALGORITHMS)
def test_survivors_that_revoke_nothing(mpi, report, mode, processes, victim, call, microseconds):
    """Natively each process comes out of a collective call by itself, with an error of a failed process."""
    settings = MODES_OF_ALGORITHMS[mode]
    run, ours = run_without(mpi, report, settings, processes, "agree", victim, call, microseconds)
    # Where nothing is forced, three processes gain nothing; and a rank 0 that is killed leaves no report.
    may_have_none = mode == "on-nodes" and processes == 3 or "FORCE" not in settings and victim == 0
    assert may_have_none or took_part(run, ours), run.describe()


@pytest.mark.parametrize("microseconds", [0, 300, 3000])
@pytest.mark.parametrize("processes, victim, call", [(5, 3, 7), (6, 2, 1), (6, 1, 4), (9, 0, 16), (16, 15, 32)])
def test_survivors_of_a_failure_on_an_intercommunicator(mpi, report, processes, victim, call, microseconds):
    """After the first call, in which circulant makes its own by MPI_Intercomm_merge. Where a process dies in that, Open
    MPI 5.0.11 itself hangs or crashes."""
    run, ours = run_without(mpi, report, {"FORCE": 1}, processes, "inter", victim, call, microseconds)
    assert ours >= 10, run.describe()


@pytest.mark.parametrize("mode", MODES_OF_ALGORITHMS)
def test_calls_on_a_revoked_communicator_fail(mpi, report, mode):
    settings, command = MODES_OF_ALGORITHMS[mode], ["--with-ft", "ulfm", surviving_program(mpi), "late"]
    run = mpi.preloaded(6, command, report, settings, timeout=25).expect_success()
    assert took_part(run, survivors(run)[3]), run.describe()


def revocations(mpi, report, times, settings, fault=()):
    """All but rank 1 leave calls with an error, so many times. Under a fault, libfault ends who uses a request again that
    MPI has ended. The run, and the KiB that each rank has more in the end than after a tenth of the times."""
    surviving_program(mpi)
    command = ["--with-ft", "ulfm", "env", *fault, mpi.program("revocations"), times]
    library = [mpi.library, mpi.build / "tests" / "libfault.so"] if fault else None
    run = mpi.preloaded(4, command, report, settings, library=library, timeout=60).expect_success()
    line = r"^memory of rank (\d): (\d+) then (\d+) KiB, errors (\d+), circulant (\d+)$"
    said = [[int(field) for field in fields] for fields in re.findall(line, run.stdout, re.MULTILINE)]
    assert len(said) == 4, run.describe()
    for rank, _, _, errors, ours in said:
        assert errors == (0 if rank == 1 else times) and ours > times, run.describe()
    return run, [last - first for _, first, last, _, _ in said]


def test_revocations_leave_nothing(mpi, report):
    """Neither scratch, nor private communicators: at most 6 KiB each time, of which Open MPI leaves 4 to 5 natively."""
    run, more = revocations(mpi, report, 400, {"FORCE": 1})
    assert max(more) < 2000, run.describe()
    # One line on each rank that had an error.
    assert run.stderr.count("MPI failed in the middle of") == 3, run.describe()


def test_requests_that_mpi_has_ended_are_left_alone(mpi, report):
    """A revocation ends all receives of a communicator, of several chunks here. MPI_Waitany of Open MPI would free them
    all, and sends that have not ended, too: libfault kills who calls it."""
    fault = ["FAULT_RANK=2", "FAULT_KILL=PMPI_Waitany", "FAULT_CALL=1"]
    revocations(mpi, report, 100, {"FORCE": 1, "CHUNKS": 5}, fault)


@pytest.mark.parametrize("chunks", [1, 5])
def test_sends_that_do_not_end_are_left(mpi, report, chunks):
    """Sometimes one does not end on a revoked communicator, in Open MPI; here none does, on one rank."""
    fault = ["FAULT_RANK=2", "FAULT_STUCK=1"]
    run, _ = revocations(mpi, report, 8, {"FORCE": 1, "CHUNKS": chunks}, fault)
    assert "fault: a send does not end" in run.stderr, run.describe()


@pytest.mark.parametrize("call", range(21, 32))
def test_survivors_of_a_failure_in_trials_in_shared_memory(mpi, report, call):
    """Some are through, and tell their neighbours what the trial has taken, as one waits in that memory for the dead."""
    run, ours = run_without(mpi, report, {"SELECT": "tune"}, 16, "agree", 15, call, 300)
    assert ours > 0 and any("shared" in row.get("algorithms", {}) for row in run.rows()), run.describe()


# Functions of MPI, and in which calls of them circulant is killed.
MOMENTS = [
    # Before, in and after the making of the private communicator, for each of the program's.
    ("making", {"FORCE": 1}, "PMPI_Allreduce", [1, 2, 3, 4]),
    ("making", {"FORCE": 1}, "PMPI_Comm_create", [1, 2, 3]),
    ("rounds", {"FORCE": 1}, "PMPI_Isend", [1, 2, 7, 15, 30, 60]),
    ("rounds", {"FORCE": 1}, "PMPI_Irecv", [1, 40, 90]),
    # To agree on scratch.
    ("scratch", {"FORCE": 1}, "PMPI_Sendrecv", [1, 3, 5]),
    # To measure the network, and to agree on what was measured.
    ("measurement", {"SELECT": "tune", "NODE_SIZE": 1}, "PMPI_Sendrecv", [1, 4, 9, 30]),
    ("leaders", {**NODES, "BCAST": "leaders", "ALLREDUCE": "leaders"}, "PMPI_Isend", [1, 4]),
    ("lanes", {**NODES, "BCAST": "lanes", "ALLREDUCE": "lanes"}, "PMPI_Isend", [1, 6]),
    # In what checks agree on, and in the MPI library's own call that repeats one of circulant's.
    ("checks", {"FORCE": 1, "CHECK": 1}, "PMPI_Sendrecv", [*range(5, 45, 3)]),
    ("checks", {"FORCE": 1, "CHECK": 1}, "PMPI_Allreduce", [8, 11]),
    # The memory that processes share is made by messages, too.
    ("shared", {"FORCE": 1, **SHARED}, "PMPI_Sendrecv", [1, 2, 4, 6]),
    ("shared-by-nodes", {**NODES, "BCAST": "shared", "ALLREDUCE": "shared"}, "PMPI_Isend", [1, 4]),
]


@pytest.mark.parametrize("processes, victim", [(5, 2), (6, 0), (9, 5)])
@pytest.mark.parametrize(
    "settings, function, call",
    [
        pytest.param(settings, function, call, id=f"{what}-{function}-{call}")
        for what, settings, function, calls in MOMENTS
        for call in calls
    ],
)
def test_survivors_of_a_process_killed_in_a_call_of_mpi(mpi, report, processes, victim, settings, function, call):
    """The process is killed where circulant calls a function of MPI, while the others are in the same call of
    circulant's or the one before."""
    fault = [f"FAULT_RANK={victim}", f"FAULT_KILL={function}", f"FAULT_CALL={call}"]
    run, ours = run_without(mpi, report, settings, processes, fault=fault)
    assert f"fault: killed in call {call} of {function}" in run.stderr, run.describe()
    assert ours >= 10 or "SELECT" in settings, run.describe()


@pytest.mark.parametrize("function", ["PMPI_Send", "PMPI_Recv"])
def test_survivors_of_a_process_killed_as_a_node_agrees(mpi, report, function):
    """On the way to the leader of the node, or back. What this process sends and receives before is in MPI_Init."""
    fault = ["FAULT_RANK=5", f"FAULT_KILL={function}", "FAULT_CALL=4"]
    run, ours = run_without(mpi, report, {**NODES, "ALLREDUCE": "leaders"}, 9, fault=fault)
    assert f"fault: killed in call 4 of {function}" in run.stderr and ours >= 10, run.describe()


def seconds_of_work(process):
    """The seconds of a processor that a process took."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def killed_after(seconds, run):
    """Kills rank 1 of a run when it has worked for some time. The run, and the seconds from then to its end."""
    killed = []

    def kill(process_of):
        process = process_of(1)
        while seconds_of_work(process) < seconds:
            time.sleep(0.1)
        killed.append(time.monotonic())
        os.kill(process, signal.SIGKILL)

    done = run(kill)
    return done, time.monotonic() - killed[-1]


@pytest.mark.parametrize(
    "operation, more",
    [
        pytest.param("bcast", {}, id="bcast-messages"),
        pytest.param("allreduce", SHARED, id="allreduce-shared"),
        pytest.param("bcast", SHARED, id="bcast-shared", marks=pytest.mark.repeats),
        pytest.param("allreduce", {}, id="allreduce-messages", marks=pytest.mark.repeats),
    ],
)
def test_a_job_with_a_killed_process_ends(mpi, report, operation, more):
    command = [mpi.program("sequence"), f"{operation}:300000x1000000"]
    settings = {"FORCE": 1, "TRACE": 1, **more}
    native, natively = killed_after(1, lambda kill: mpi.native(3, command, meanwhile=kill, timeout=60))
    run, seconds = killed_after(
        1, lambda kill: mpi.preloaded(3, command, report, settings, meanwhile=kill, timeout=60)
    )
    assert native.status not in (0, None), native.describe()
    assert run.status not in (0, None), run.describe()
    algorithms = ["shared"] if more else ["circulant", "doubling"]
    assert any(f"-> {algorithm}" in run.stderr for algorithm in algorithms), run.describe()
    assert seconds < natively + 10


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"FORCE": 1}, id="forced"),
        pytest.param({"FORCE": 1, **SHARED}, id="shared", marks=pytest.mark.repeats),
        pytest.param({"SELECT": "tune", "NODE_SIZE": 1}, id="learning", marks=pytest.mark.repeats),
    ],
)
def test_a_job_with_a_stopped_process_goes_on(mpi, report, settings):
    """Stopped in calls, over and over, for half a second: natively and under the library."""
    calls = [f"{operation}:1000000x40" for operation in ("bcast", "reduce", "allgather", "allreduce")]

    def stop_and_continue(process_of):
        process = process_of(1)
        try:
            for _ in range(4):
                time.sleep(0.3)
                os.kill(process, signal.SIGSTOP)
                time.sleep(0.5)
                os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass

    command = [mpi.program("sequence"), *calls]
    native = mpi.native(3, command, meanwhile=stop_and_continue).expect_success()
    run = mpi.preloaded(3, command, report, settings, meanwhile=stop_and_continue).expect_success()
    # Nobody waits for ever. The machine may be busy.
    assert run.seconds < 3 * native.seconds + 30
    assert "failures=0" in run.stdout
    assert run.seconds > 1, "it was over before it was stopped"
    if "FORCE" in settings:
        assert run.outcomes("bcast") == {"circulant": 40}
    else:
        assert run.tried()


HOSTS = 4
MODES = {"native": None, "default": {}, "forced": {"FORCE": 1}, "learning": {"SELECT": "tune"}}


def runs_on_hosts(mpi, folder, *options, calls, bytes):
    """A run of each mode, side by side: natively, and under the library. All results have to be right. Those under
    the library may not take much longer than the native one: no time is measured, but nobody may wait for ever."""
    operations = ("bcast", "reduce", "allgather", "allreduce")
    command = [mpi.program("sequence"), *(f"{operation}:{bytes}x{calls}" for operation in operations)]

    def run(mode):
        report = None if mode == "native" else folder / f"{mode}.json"
        return mpi.on_hosts(HOSTS, ["--rate", "100mbit", *options], command, MODES[mode], report, timeout=300)

    with concurrent.futures.ThreadPoolExecutor() as beside:
        runs = dict(zip(MODES, beside.map(run, MODES)))
    if runs["native"].status == IMPOSSIBLE:
        pytest.skip(runs["native"].stderr)
    for run in runs.values():
        run.expect_success()
        assert "failures=0" in run.stdout, run.describe()
        assert run.seconds < 3 * runs["native"].seconds + 30, run.describe()
    assert runs["default"].report is not None, runs["default"].describe()
    for operation in operations:
        assert runs["forced"].outcomes(operation) == {"circulant": calls}
    assert "bcast" in runs["learning"].tried()
    return runs


@pytest.mark.xdist_group("hosts")  # one at a time
@pytest.mark.parametrize("calls", [4, *repeated(40)])
def test_lost_packets_are_no_harm(mpi, tmp_path, calls):
    runs = runs_on_hosts(mpi, tmp_path, "--loss", "5%", calls=calls, bytes=100_000)
    for run in runs.values():
        assert re.search("cluster: [1-9][0-9]* packets were lost", run.stderr), run.describe()


@pytest.mark.xdist_group("hosts")
@pytest.mark.parametrize("seconds", [3, *repeated(30)])
def test_a_job_with_a_host_cut_off_goes_on(mpi, tmp_path, seconds):
    """Cut off in broadcasts, after some of them: circulant's, and a trial's."""
    if seconds > 3 and mpi.family != "openmpi":
        pytest.skip("natively, over UCX, MPICH gives up the host, or waits for ever")
    runs = runs_on_hosts(mpi, tmp_path, "--cut", f"node1:{seconds}:3000000", calls=16, bytes=300_000)
    for run in runs.values():
        assert f"node1 was cut off for {seconds} s" in run.stderr, run.describe()


@pytest.mark.xdist_group("hosts")
def test_a_job_in_which_mpi_fails_ends(mpi, report):
    """On several hosts: there MPICH's launcher does not hear of a process that ends alone. One line says where."""
    command = [mpi.program("sequence"), "bcast:100000x4"]
    fault = {"FAULT_RANK": 1, "FAULT_SEND": 1000}
    run = mpi.on_hosts(3, [], command, {"FORCE": 1}, report, fault, timeout=120)
    if run.status == IMPOSSIBLE:
        pytest.skip(run.stderr)
    assert run.status not in (0, None), run.describe()
    assert "MPI failed in the middle of bcast on rank 1" in run.stderr, run.describe()
    if mpi.family == "mpich":
        assert "circulant: an error ends the job: " in run.stderr, run.describe()
    assert run.seconds < 90
