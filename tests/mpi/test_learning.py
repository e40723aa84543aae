"""What is learned, and what becomes of it: on new communicators, in profiles, in the report.

Times differ from run to run, so no test says who is the fastest: only that all processes choose alike, that
results are right all the while, and which calls were tried.
"""

import json
import os
import re
import tomllib

import pytest

from cases import repeated
from test_programs import SHARED_BY_NODES, run_by

# So many that the first call is worth a measurement of the network.
BYTES = 2000000


@pytest.fixture
def learning(mpi, report):
    """learning(settings, *arguments): a successful preloaded run of the program `learning`."""

    def run(settings, *arguments, processes=4, calls=8):
        command = [mpi.program("learning"), calls, BYTES, *arguments]
        run = mpi.preloaded(processes, command, report, {"NODE_SIZE": 1, **settings}, timeout=300)
        run.expect_success()
        assert "failures=0" in run.stdout, run.describe()
        return run

    return run


def learned_of(run):
    """Whether calls were timed, or run by who was the fastest. When a candidate can be afforded depends on times."""
    return any(of.keys() & {"trial", "measured"} for of in run.all_outcomes().values())


def kinds(rows):
    """What was measured, of the report's rows."""
    return {(row["processes"], row["operation"], row["bytes"]) for row in rows if row["is_measured"]}


def measured_kinds(profile):
    networks = profile["network"]
    calls = [{**call, **network} for network in networks for call in network.get("calls", [])]
    return {(call["processes"], call["operation"], call["bytes"]) for call in calls}


def outcomes_of_all(folder, processes):
    """By rank, from reports in `folder`: calls by operation and what became of them."""
    reports = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]
    return [
        {(row["operation"], row.get("reason", "circulant")): row["calls"] for row in report["operations"]}
        for report in reports
    ]


def digest(run):
    return re.search("digest=([0-9a-f]+)", run.stdout)[1]


# Settings, and the operations that have run in the way that they are for.
WAYS = {
    "forced": ({"FORCE": 1, "NODE_SIZE": 1}, lambda run: run_by("circulant", run) | run_by("doubling", run)),
    "by nodes": ({"FORCE": 1, "NODE_SIZE": 2}, lambda run: run_by("leaders", run) | run_by("lanes", run)),
    "tried": ({"SELECT": "tune", "NODE_SIZE": 2}, lambda run: run.tried()),
    "in the memory of nodes": ({"FORCE": 1, "NODE_SIZE": 2, **SHARED_BY_NODES}, lambda run: run_by("shared", run)),
    "in shared memory": ({"SELECT": "tune"}, lambda run: run_by("shared", run)),
}


@pytest.mark.parametrize("way", WAYS)
def test_private_communicators_have_no_collective_operations(mpi, report, way):
    """For the first of them on a new communicator Open MPI 5 may take 20 ms, in the middle of a trial. libfault ends who
    runs one."""
    settings, have_run = WAYS[way]
    operations = ["bcast", "reduce", "allgatherv", "reduce_scatter", "allreduce"]
    calls = [f"{operation}:{size}x6" for operation in operations for size in (40000, 400000)]
    libraries = [mpi.library, *(mpi.build / "tests").glob("lib*fault.so")]
    command = ["env", "FAULT_PRIVATE=1", mpi.program("sequence"), *calls]
    run = mpi.preloaded(4, command, report, settings, library=libraries, trapped=True).expect_success()
    assert "fault: a communicator of circulant's own" in run.stderr, run.describe()
    assert have_run(run) == set(operations), run.describe()


@pytest.mark.parametrize("processes", [2, 3, *repeated(5)])
@pytest.mark.parametrize("select", ["learn", "tune", *repeated("adaptive")])
def test_all_processes_choose_alike(mpi, tmp_path, processes, select):
    """Every process counts the same calls with the same outcomes, although their times differ."""
    settings = {"SELECT": select, "NODE_SIZE": 1, "REPORT": tmp_path / "%r.json"}
    environment = {f"CIRCULANT_{name}": str(value) for name, value in settings.items()}
    command = [mpi.program("learning"), 12, BYTES, "delays"]
    run = mpi.run(processes, command, mpi.library, environment, timeout=300).expect_success()
    assert "failures=0" in run.stdout
    outcomes = outcomes_of_all(tmp_path, processes)
    assert {reason for _, reason in outcomes[0]} & {"trial", "measured", "circulant"}
    # Where halves of the communicator are as large, they may learn differently, but no other.
    if processes == 3:
        assert outcomes[0] == outcomes[2]
    if processes == 2:
        assert outcomes[0] == outcomes[1]


def test_threads_learn(learning):
    """Two threads at once, each on communicators of its own."""
    run = learning({"SELECT": "tune"}, "threads")
    assert learned_of(run) and run.tried()


@pytest.mark.any_mpi
@pytest.mark.parametrize("select", ["learn", *repeated("model", "native", "trial")])
def test_results_are_reproducible(learning, select):
    """When processes come to a call does not change the last bit of a sum of floating-point numbers."""
    first, delayed = learning({"SELECT": select}), learning({"SELECT": select}, "delays")
    assert digest(first) == digest(delayed)
    if select == "learn":
        assert learned_of(first) and learned_of(delayed)
    elif select == "model":
        assert first.outcomes("allreduce").keys() & {"circulant", "cost_model"}
    else:
        assert first.outcomes("allreduce")["observed"] > 0


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [5, *repeated(3, 4, 9)])
def test_the_number_of_blocks_changes_no_bit(learning, processes):
    """Of sums of floating-point numbers to one root, and to parts that differ."""
    digests = set()
    for blocks in (4, 15, 64):
        settings = {"FORCE": 1, "REDUCE_BLOCKS": blocks, "REDUCE_SCATTER_BLOCKS": blocks}
        run = learning(settings, calls=2, processes=processes)
        for operation in ("reduce", "reduce_scatter"):
            assert run.outcomes(operation).keys() == {"circulant"}, run.describe()
        digests.add(digest(run))
    assert len(digests) == 1


BROADCASTS = """[[network.calls]]
operation = "bcast"
bytes = 1048576
seconds = [0.1, 0.05]
"""


@pytest.mark.parametrize("processes", [4, *repeated(3)])
@pytest.mark.parametrize("run, who", [("native", "measured"), ("2n", "circulant")])
def test_communicators_begin_with_a_profile(learning, profile, run, who, processes):
    """Broadcasts on all communicators of as many processes, new ones too, are run as it says from the first
    call on; those of about as many alike."""
    written = profile(processes, 30, 0.001, f'{BROADCASTS}run = "{run}"\n')
    outcomes = learning({"PROFILE": written}, calls=8).outcomes("bcast")
    # Three communicators of all processes.
    assert outcomes[who] >= 3 * 8, outcomes


# Of fast and slow networks. With 512 KiB of scratch, 6 blocks are doubled until they fit.
@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "scratch, blocks", [("64M", {"0.0001": "6", "0.001": "10", "0.1": "68"}), ("512K", {"0.0001": "48", "0.1": "68"})]
)
def test_blocks_of_reductions_suit_the_network(learning, profile, scratch, blocks):
    """Those of floating-point numbers, too, by default. Who runs them depends on nothing measured, nor do the bits,
    also where scratch is short."""
    found, digests = {}, set()
    for beta in blocks:
        written = profile(4, 30, beta, f'{BROADCASTS}run = "native"\n')
        run = learning({"PROFILE": written, "TRACE": 1, "SCRATCH_MAX": scratch}, calls=4)
        numbers = re.findall(r"reduce #[0-9]+ [0-9]+ B p=4 .* -> circulant n=([0-9]+)", run.stderr)
        (found[beta],) = set(numbers)
        assert len(numbers) == run.outcomes("reduce")["circulant"]
        digests.add(digest(run))
    assert found == blocks
    digests.add(digest(learning({"SELECT": "model", "SCRATCH_MAX": scratch}, calls=4)))
    assert len(digests) == 1


@pytest.mark.any_mpi
def test_a_profile_is_saved_and_read(learning, tmp_path):
    profile = tmp_path / "profile.toml"
    learning({"PROFILE_SAVE": profile}, calls=15)
    saved = tomllib.loads(profile.read_text())
    sizes = {network["processes"] for network in saved["network"]}
    assert 4 in sizes
    assert all("order" not in call for network in saved["network"] for call in network.get("calls", []))
    read = learning({"PROFILE": profile}, calls=12)
    assert measured_kinds(saved) <= kinds(read.report["learned"]), read.describe()
    # Saved again, it still has what it had.
    learning({"PROFILE": profile, "PROFILE_SAVE": profile}, calls=3)
    again = tomllib.loads(profile.read_text())
    assert {network["processes"] for network in again["network"]} >= sizes


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "calls, expected",
    [
        (["bcast:65536x3"], {"circulant": 2, "trial": 1}),
        (["bcast:65536x2", "reduce:8x20", "allgather:9999x6", "bcast:65536"], {"circulant": 2, "trial": 1}),
        (["bcast:65536x2", "bcast:66000", "allgather:9999x12"], {"circulant": 3}),
        (["bcast:65536x2", "bcast:9999x2"], {"circulant": 2, "cost_model": 2}),
    ],
)
def test_what_the_cost_model_presumes_is_compared(mpi, report, calls, expected):
    """The second broadcast is timed, and so is the next one like it, which the MPI library runs, if it comes soon."""
    command = [mpi.program("sequence"), *calls]
    run = mpi.preloaded(9, command, report, {"NODE_SIZE": 1}).expect_success()
    assert run.outcomes("bcast") == expected, run.describe()
    assert not run.report["learned"], run.describe()


@pytest.mark.any_mpi
@pytest.mark.parametrize("setting", ["SELECT=model", "CHECK=1", "FORCE=1"])
def test_what_settings_say_is_not_compared(mpi, report, setting):
    """A check takes its time from circulant's calls. If that makes them so long that the network is measured, there may
    be trials."""
    name, value = setting.split("=")
    command = [mpi.program("sequence"), "bcast:65536x4"]
    run = mpi.preloaded(9, command, report, {"NODE_SIZE": 1, name: value}).expect_success()
    assert run.report["learned"] or run.outcomes("bcast") == {"circulant": 4}, run.describe()


@pytest.mark.parametrize("calls", ["bcast:65536x40", "allreduce-double:40000x40"])
def test_all_processes_compare_alike(mpi, tmp_path, calls):
    """Whoever wins. What floating-point reductions lead to does not depend on times."""
    environment = {"CIRCULANT_NODE_SIZE": "1", "CIRCULANT_REPORT": str(tmp_path / "%r.json")}
    command = [mpi.program("sequence"), calls]
    run = mpi.run(9, command, mpi.library, environment).expect_success()
    assert "failures=0" in run.stdout
    outcomes = outcomes_of_all(tmp_path, 9)
    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes
    became = {reason for _, reason in outcomes[0]}
    expected = {"circulant", "trial", "measured"} if calls.startswith("bcast") else {"circulant"}
    assert "circulant" in became and became <= expected, outcomes
    assert ("trial" in expected) == ("trial" in became)


@pytest.mark.any_mpi
@pytest.mark.parametrize("late", ["late", "first-late"])
def test_who_waits_for_others_has_no_long_call(mpi, report, tmp_path, late):
    """The network is measured once calls have taken long enough. These take far less than a millisecond, and their
    processes wait for each other much longer. One that loses its processor may make a call long, but not each time."""
    profile = tmp_path / "profile.toml"
    command = [mpi.program("sequence"), *[f"{late}:50", "allreduce:200000"] * 6]

    def is_left_to_the_cost_model():
        run = mpi.preloaded(2, command, report, {"NODE_SIZE": 1, "PROFILE_SAVE": profile}).expect_success()
        is_measured = "network" in tomllib.loads(profile.read_text())
        profile.unlink()
        return run.outcomes("allreduce") == {"cost_model": 6} and not is_measured

    assert any(is_left_to_the_cost_model() for _ in range(5))


@pytest.mark.any_mpi
@pytest.mark.parametrize("rank, reason", [(0, "cost_model"), (2, "one_node")])
def test_rank_0_hears_from_the_launcher_that_there_is_one_node(mpi, report, rank, reason):
    """Nobody has to ask. What another rank hears makes no difference: that may be wrong."""
    test = f'test "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = {rank}'
    other = "export OMPI_COMM_WORLD_LOCAL_SIZE=9 MPI_LOCALNRANKS=9"
    program = f'exec {mpi.program("sequence")} bcast:20000 allreduce:20000'
    run = mpi.preloaded(3, ["sh", "-c", f"{test} && {other}; {program}"], report)
    run.expect_success()
    assert run.outcomes("bcast") == run.outcomes("allreduce") == {reason: 1}, run.describe()


@pytest.mark.any_mpi
def test_a_tuned_profile_is_used(learning, tmp_path):
    """What was tuned is known in a run that has no time to measure anything."""
    profile = tmp_path / "tuned.toml"
    tuned = learning({"SELECT": "tune", "PROFILE_SAVE": profile}, calls=30)
    saved = measured_kinds(tomllib.loads(profile.read_text()))
    assert tuned.tried() and saved
    read = learning({"PROFILE": profile}, calls=1)
    assert saved <= kinds(read.report["learned"]), read.describe()


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "text, complaint",
    [
        (None, "No such file"),
        ("", "missing field `version`"),
        ('version = 9\nmpi = "x"\n', "version 1 is accepted"),
        ('version = 1\nmpi = "Another MPI 1.0"\n', "it was measured with"),
        ("version = ", "line 1"),
        ("\x00\x01", "line 1"),
    ],
)
def test_a_broken_profile_is_named_once(learning, tmp_path, text, complaint):
    profile = tmp_path / "profile.toml"
    if text is not None:
        profile.write_text(text)
    run = learning({"PROFILE": profile, "SELECT": "tune"}, processes=2, calls=5)
    lines = [line for line in run.stderr.splitlines() if "CIRCULANT_PROFILE=" in line]
    assert len(lines) == 1 and complaint in lines[0] and "is not used" in lines[0], run.stderr
    assert run.tried()


@pytest.mark.any_mpi
def test_a_profile_delays_no_rounded_result(mpi, report, tmp_path):
    """On one node their first call has memory made that is shared, whether there is a profile or not: by times, two
    runs would have it made at different calls, and get different bits."""
    command = [mpi.program("sequence"), "allreduce-double:16384x6"]
    for settings in ({}, {"PROFILE": tmp_path / "none.toml"}):
        run = mpi.preloaded(3, command, report, settings).expect_success()
        assert run.outcomes("allreduce") == {"circulant": 6}, run.describe()
        assert run_by("shared", run) == {"allreduce"}


def unending(folder, kind):
    """A file that a read does not come to the end of."""
    if kind == "pipe":
        os.mkfifo(folder / kind)
    elif kind == "huge":
        with open(folder / kind, "wb") as file:
            file.truncate(1 << 40)
    return {"zero": "/dev/zero", "terminal": "/dev/ptmx"}.get(kind, folder / kind)


UNENDING = {"pipe": "no regular file", "zero": "no regular file", "terminal": "no regular file", "huge": "1 MiB"}


@pytest.mark.any_mpi
@pytest.mark.parametrize("kind", UNENDING)
@pytest.mark.parametrize("setting", ["PROFILE", "PROFILE_SAVE"])
def test_a_profile_is_not_waited_for(learning, tmp_path, setting, kind):
    """Natively nobody opens it. A job that waited for it would not end."""
    file = unending(tmp_path, kind)
    before = os.lstat(file)
    run = learning({setting: file, "SELECT": "tune"}, processes=2, calls=5)
    lines = [line for line in run.stderr.splitlines() if f"CIRCULANT_{setting}=" in line]
    assert len(lines) == 1 and UNENDING[kind] in lines[0], run.stderr
    assert run.tried()
    after = os.lstat(file)
    assert (after.st_ino, after.st_size, after.st_mode) == (before.st_ino, before.st_size, before.st_mode)


@pytest.mark.any_mpi
def test_a_profile_that_cannot_be_written_is_named(learning, tmp_path):
    run = learning({"PROFILE_SAVE": tmp_path / "none" / "profile.toml"}, processes=2, calls=5)
    lines = [line for line in run.stderr.splitlines() if "CIRCULANT_PROFILE_SAVE" in line]
    assert len(lines) == 1 and "cannot be written" in lines[0]


@pytest.mark.any_mpi
def test_a_broken_profile_is_not_overwritten(learning, tmp_path):
    profile = tmp_path / "profile.toml"
    profile.write_text("mine = true\n")
    run = learning({"PROFILE_SAVE": profile}, processes=2, calls=5)
    assert profile.read_text() == "mine = true\n"
    assert "cannot be written" in run.stderr


def test_observed_calls_stay_native(learning):
    """Nothing is circulant's, but the report says what each call took and would take."""
    run = learning({"SELECT": "native"})
    assert all("circulant" not in of for of in run.all_outcomes().values())
    rows = [row for row in run.report["sizes"] if row["operation"] == "bcast"]
    assert rows and all(row["circulant_calls"] == 0 and row["is_predicted"] for row in rows)
    assert rows[0]["circulant_seconds_a_call"] > 0
    observed = [row for row in run.rows() if row.get("reason") == "observed"]
    assert observed and all(row["seconds"] > 0 for row in observed), run.describe()


@pytest.mark.any_mpi
def test_trials_of_observed_calls(learning):
    """After so many calls most of them are not trials, whatever these took."""
    run = learning({"SELECT": "trial"}, calls=40)
    outcomes = run.outcomes("bcast")
    assert outcomes["observed"] > outcomes.get("circulant", 0) + outcomes.get("trial", 0)


@pytest.mark.any_mpi
def test_sizes_in_the_report(learning):
    """Calls by size are all calls."""
    run = learning({})
    for operation, of in run.all_outcomes().items():
        rows = [row for row in run.report["sizes"] if row["operation"] == operation]
        assert sum(row["native_calls"] for row in rows) == sum(of.values()) - of.get("circulant", 0)
        assert sum(row["circulant_calls"] for row in rows) == of.get("circulant", 0)
