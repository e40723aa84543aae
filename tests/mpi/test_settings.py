"""The environment variables, seen from a program's side."""

import json
import re

import pytest

from cases import repeated
from launch import OPERATIONS

EACH_ONCE = [f"{operation}:40000" for operation in OPERATIONS]


@pytest.fixture
def sequence(mpi, report):
    """sequence(settings, *calls): a successful preloaded run of these calls."""

    def run(settings, *calls, processes=3, wrapper=(), **options):
        command = [*wrapper, mpi.program("sequence"), *calls]
        run = mpi.preloaded(processes, command, report, settings, **options).expect_success()
        assert "failures=0" in run.stdout, run.describe()
        return run

    return run


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "name, value, accepted",
    [
        ("BLOCKS", "0", "from 1 to"),
        ("BLOCK_SIZE", "1Q", "K, M or G"),
        ("F", "fast", "decimal number"),
        ("WINDOW", "-3", "from 1 to"),
        ("BCAST", "quick", "auto, native, circulant, leaders, lanes or shared"),
        ("REDUCE_SCATTER_BLOCK", "1", "auto, native, circulant, doubling, ordered, leaders, lanes or shared"),
        ("PACING", "slow", "auto, synchronous or eager"),
        ("SKIPS", "doubling", "halving, power2, sqrt or linear"),
        ("CENSUS_MAX", "much", "K, M or G"),
        ("ALLREDUCE", "fast", "auto, native, circulant, doubling, ordered, census, leaders, lanes or shared"),
        ("BCAST", "native:0-32K;circulant,blocks=0", "at character 31: accepted is a number"),
        ("TRACE", "yes", "0 or 1"),
    ],
)
def test_unreadable_value(sequence, name, value, accepted):
    run = sequence({"FORCE": 1, name: value}, *EACH_ONCE)
    (line,) = run.stderr.splitlines()
    assert f"CIRCULANT_{name}" in line
    assert value in line
    assert accepted in line
    assert run.outcomes("bcast") == {"circulant": 1}


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "name, nearest",
    [
        ("BLOKS", "CIRCULANT_BLOCKS"),
        ("MINBYTES", "CIRCULANT_MIN_BYTES"),
        ("BCAST_BLOCKS_SIZE", "CIRCULANT_BCAST_BLOCK_SIZE"),
    ],
)
def test_unknown_variable(sequence, name, nearest):
    run = sequence({"FORCE": 1, name: "7"}, *EACH_ONCE)
    (line,) = run.stderr.splitlines()
    assert f"CIRCULANT_{name}" in line
    assert f"the nearest name is {nearest};" in line
    assert run.outcomes("bcast") == {"circulant": 1}


def test_disable(sequence):
    run = sequence({"DISABLE": 1, "FORCE": 1}, *EACH_ONCE)
    assert run.all_outcomes() == {operation: {"disabled": 1} for operation in OPERATIONS}


@pytest.mark.any_mpi
@pytest.mark.parametrize("operations", [OPERATIONS[::2], OPERATIONS[1::2], *repeated(*([each] for each in OPERATIONS))])
def test_operation_switched_off(sequence, operations):
    run = sequence({"FORCE": 1, **{operation.upper(): "native" for operation in operations}}, *EACH_ONCE)
    expected = {other: {"circulant": 1} for other in OPERATIONS}
    expected |= {operation: {"chosen": 1} for operation in operations}
    assert run.all_outcomes() == expected


@pytest.mark.any_mpi
def test_least_size(sequence):
    settings = {"MIN_BYTES": 1000, "BCAST": "circulant"}
    run = sequence(settings, "bcast:996x2", "bcast:1000x3", "reduce:996")
    assert run.outcomes("bcast") == {"small": 2, "circulant": 3}
    assert run.outcomes("reduce") == {"small": 1}


@pytest.mark.any_mpi
def test_force_overrides_least_size(sequence):
    run = sequence({"MIN_BYTES": "1M", "FORCE": 1}, "bcast:4")
    assert run.outcomes("bcast") == {"circulant": 1}


def test_default_does_no_harm(sequence):
    """By the cost model, calls on one node stay with the MPI library, if its processes share no memory; small ones
    anywhere. Nothing is said."""
    for settings, is_large in [
        ({"SELECT": "model"}, lambda outcomes: outcomes == {"circulant": 9}),
        ({"SELECT": "model", "SHARED_MAX": 0}, lambda outcomes: outcomes == {"one_node": 9}),
        ({}, lambda outcomes: set(outcomes) <= {"cost_model", "one_node", "trial", "measured", "circulant"}),
        ({"SHARED_MAX": 0}, lambda outcomes: set(outcomes) <= {"one_node", "trial", "measured", "circulant"}),
    ]:
        run = sequence(settings, "bcast:8x5", "bcast:8000000x9", processes=5)
        outcomes = run.outcomes("bcast")
        assert outcomes.pop("small") == 5
        assert sum(outcomes.values()) == 9 and is_large(outcomes), run.describe()
        assert run.stderr == ""
    # The MPI library's calls are timed, in a trial or for a survey, before one of ours may take longer.
    [learned] = [row for row in run.report["learned"] if row["operation"] == "bcast"]
    assert learned["tried"]["native"] > 0, run.describe()


def test_no_scratch(sequence):
    """What can do without scratch does; what cannot goes native, on all ranks."""
    run = sequence(
        {"FORCE": 1, "SCRATCH_MAX": 0}, "bcast:40000", "bcast-vector:40000x3", "reduce:40000"
    )
    assert run.outcomes("bcast") == {"circulant": 1, "scratch": 3}
    assert run.outcomes("reduce") == {"scratch": 1}


def test_little_scratch(sequence):
    """The bound is on each communicator: smaller calls are still ours after one that was too large."""
    settings = {"FORCE": 1, "SCRATCH_MAX": "8K", "BLOCK_SIZE": "1G"}
    run = sequence(settings, "reduce:400", "reduce:400000", "reduce:400", "reduce-vector:4000000")
    assert run.outcomes("reduce") == {"circulant": 2, "scratch": 2}


def test_no_communicators(sequence):
    run = sequence({"FORCE": 1, "COMMUNICATORS": 0}, *EACH_ONCE)
    assert run.all_outcomes() == {operation: {"no_communicator": 1} for operation in OPERATIONS}


def test_bytes_of_native_calls(sequence):
    run = sequence({"MIN_BYTES": 1000}, "bcast:996x2", "reduce:400")
    assert [(row["reason"], row["bytes"]) for row in run.rows()] == [("small", 1992), ("small", 400)]


@pytest.mark.any_mpi
def test_trace(sequence):
    run = sequence({"FORCE": 1, "TRACE": 1}, "bcast:40000x3", "reduce:4")
    lines = run.stderr.splitlines()
    assert len(lines) == 4, run.describe()
    for number, line in enumerate(lines[:3], start=1):
        assert re.search(rf"bcast #{number} 40000 B p=3 root={number - 1} -> circulant n=\d+", line)
    assert re.search(r"reduce #1 4 B p=3 root=0 -> circulant n=1 ", lines[3])


@pytest.mark.any_mpi
def test_verbose(sequence):
    run = sequence({"FORCE": 1, "VERBOSE": 1, "BLOCKS": 7}, "bcast:40000")
    assert re.search(r"CIRCULANT_BLOCKS=7\b.*[Ee]nvironment", run.stderr), run.describe()
    assert re.search(r"CIRCULANT_WINDOW=\d+ .*[Dd]efault", run.stderr), run.describe()
    assert len([line for line in run.stderr.splitlines() if "CIRCULANT_BLOCKS=" in line]) == 1


def test_settings_in_report(sequence):
    run = sequence({"FORCE": 1, "BCAST_BLOCKS": 5}, "bcast:40000")
    assert run.report["settings"]["CIRCULANT_FORCE"] == "1"
    assert run.report["settings"]["CIRCULANT_BCAST_BLOCKS"] == "5"
    assert run.rows()[0]["blocks"] == 5


def test_report_of_no_calls(sequence):
    assert sequence({}).rows() == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_report_on_a_standard_stream(sequence, report, stream):
    run = sequence({"FORCE": 1, "REPORT": stream}, *EACH_ONCE)
    assert not report.exists()
    lines = [line for line in getattr(run, stream).splitlines() if line.startswith("circulant: ")]
    assert lines, run.describe()
    assert stream == "stderr" or run.stderr == "", run.describe()
    for operation in OPERATIONS:
        assert len([line for line in lines if re.search(rf"\b{operation} +circulant\b", line)]) == 1


@pytest.mark.any_mpi
def test_report_of_every_process(sequence, tmp_path):
    sequence({"FORCE": 1, "REPORT": tmp_path / "rank-%r.json"}, "bcast:40000x4", processes=3)
    for rank in range(3):
        report = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert report["rank"] == rank
        assert [row["calls"] for row in report["operations"]] == [4]


@pytest.mark.any_mpi
def test_unwritable_report(sequence, tmp_path):
    path = tmp_path / "missing" / "report.json"
    run = sequence({"FORCE": 1, "REPORT": path}, *EACH_ONCE)
    (line,) = run.stderr.splitlines()
    assert str(path) in line


def test_settings_that_differ_between_ranks(sequence, mpi):
    """Rank 0's count: here the others would send other blocks, or nothing, or go native."""
    differ = (
        "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
        "case $rank in "
        "0) export CIRCULANT_FORCE=1 CIRCULANT_BLOCKS=7;; "
        "1) export CIRCULANT_DISABLE=1 CIRCULANT_BLOCKS=2;; "
        "2) export CIRCULANT_BCAST=native CIRCULANT_MIN_BYTES=1G CIRCULANT_PACING=eager;; "
        "3) export CIRCULANT_FORCE=0 CIRCULANT_SCRATCH_MAX=0 CIRCULANT_BLOCK_SIZE=nonsense;; "
        'esac; exec "$0" "$@"'
    )
    run = sequence({}, *EACH_ONCE, processes=5, wrapper=["sh", "-c", differ])
    assert run.all_outcomes() == {operation: {"circulant": 1} for operation in OPERATIONS}
    assert {row["blocks"] for row in run.rows()} == {7, 1}
    assert run.stderr == "", run.describe()


def test_rules_decide_on_all_ranks(sequence, mpi):
    """Rank 0's rules count, by the bytes of a call and the processes of a node; the others have others or none."""
    differ = (
        "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
        "case $rank in "
        "0) export CIRCULANT_BCAST='native:0-32K;circulant,blocks=17:32K-50000;native' "
        "CIRCULANT_ALLREDUCE='native@ppn=3-inf;doubling@ppn=2';; "
        "1) export CIRCULANT_BCAST=native;; "
        "2) export CIRCULANT_ALLREDUCE='circulant:0-inf;native';; "
        'esac; exec "$0" "$@"'
    )
    calls = ["bcast:1000", "bcast:40000", "bcast:50000", "allreduce:1000", "allreduce:40000"]
    run = sequence({"NODE_SIZE": 2}, *calls, processes=5, wrapper=["sh", "-c", differ], trapped=True)
    assert run.outcomes("bcast") == {"circulant": 1, "chosen": 2}
    assert run.outcomes("allreduce") == {"circulant": 1, "small": 1}
    (blocks,) = [row["blocks"] for row in run.rows() if row["operation"] == "bcast" and "reason" not in row]
    assert blocks == 17
