"""circulant_allgather_merge and circulant_allreduce_v. The program checks itself against serial computations,
by every algorithm, and where all is left to the MPI library; the examples run, and say what is right.
"""

import re
import sys

import pytest

from cases import repeated
from test_huge import available_memory
from test_programs import counted, grouped

PROCESSES = [1, 2, 3, 5, 7, 8, 9, 11, 16, 17]
ALGORITHMS = {
    "circulant": ({}, "circulant"),
    "dissemination": ({"MERGE": "dissemination"}, "circulant"),
    "steps": ({"FORCE": 1, "SEGMENT": 300}, "circulant"),
    "dissemination-in-steps": ({"MERGE": "dissemination", "FORCE": 1, "SEGMENT": 300}, "circulant"),
    "allgather": ({"MERGE": "allgather"}, "chosen"),
    "disabled": ({"DISABLE": 1}, "disabled"),
    "no-communicator": ({"COMMUNICATORS": 0}, "no_communicator"),
    "no-scratch-kept": ({"SCRATCH_MAX": 0}, "circulant"),
}


def cases():
    for processes in PROCESSES:
        for algorithm in ("circulant", "dissemination"):
            yield "merge", processes, algorithm
    for processes in (1, 3, 8):
        for algorithm in sorted(ALGORITHMS.keys() - {"circulant", "dissemination"}):
            yield "merge", processes, algorithm


def run(mpi, report, processes, algorithm, what, **options):
    settings, outcome = ALGORITHMS[algorithm]
    ours = outcome == "circulant"
    if processes == 1:
        outcome = "one_process"
    command = [mpi.program("merge"), outcome, what]
    done = mpi.preloaded(processes, command, report, settings, trapped=not ours, **options)
    done.expect_success()
    assert "failures=0" in done.stdout, done.describe()
    assert done.stderr == "", done.describe()
    return done


@pytest.mark.parametrize("program, processes, algorithm", [grouped(*case) for case in cases()])
def test_merge(mpi, report, program, processes, algorithm):
    del program
    what = "few" if processes > 9 else "all"
    done = run(mpi, report, processes, algorithm, what)
    made, reported = counted(done.stdout), done.all_outcomes()
    for operation in ("allgather_merge", "allreduce_v"):
        of = reported[operation]
        # In halves of the processes one may be alone.
        alone = of.pop("one_process", 0) if processes > 1 else 0
        assert alone == 0 or processes <= 3
        (outcome, calls), = made[operation].items()
        assert of == {outcome: calls - alone} and calls - alone > 20, done.describe()


@pytest.mark.parametrize("algorithm", ["circulant", "dissemination", "allgather"])
@pytest.mark.parametrize("processes", [1, *repeated(2), 3, 5, *repeated(8, 9, 11)])
def test_errors(mpi, report, processes, algorithm):
    done = run(mpi, report, processes, algorithm, "errors")
    assert done.all_outcomes() == counted(done.stdout)


@pytest.mark.parametrize("algorithm", ["circulant", "dissemination"])
@pytest.mark.parametrize("processes", [2, 5])
def test_threads(mpi, report, processes, algorithm):
    done = run(mpi, report, processes, algorithm, "threads")
    assert done.all_outcomes() == counted(done.stdout)


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes, rounds", [(2, 1), (3, 2), (5, 3), (8, 3), (9, 4)])
@pytest.mark.parametrize("algorithm", ["circulant", "dissemination"])
def test_rounds(mpi, report, processes, rounds, algorithm):
    """ceil(log2 p) rounds a call, as the report says."""
    done = run(mpi, report, processes, algorithm, "few")
    for row in done.rows():
        assert row["rounds"] == rounds * row["calls"], row


@pytest.mark.repeats
@pytest.mark.xdist_group("huge")  # one at a time
@pytest.mark.parametrize("algorithm", ["circulant", "allgather"])
def test_huge(mpi, report, algorithm):
    """A message of more than 1 GiB; and a result of more elements than an int counts, which is an error."""
    if available_memory() < 9 << 30:
        pytest.skip("needs 9 GiB of memory")
    done = run(mpi, report, 2, algorithm, "huge", timeout=300)
    assert done.all_outcomes() == counted(done.stdout)


EXAMPLES = ["merge_logs", "sample_sort"]


@pytest.mark.parametrize("processes", [1, *repeated(2), 3, 5, *repeated(8)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(mpi, report, tmp_path, example, processes):
    """The examples in C, linked with the library as a program of a user is."""
    command = [mpi.program(f"example_{example}"), *arguments(example, tmp_path)]
    done = mpi.run(processes, command, environment={"CIRCULANT_REPORT": str(report)})
    done.expect_success()
    check_example(example, done, processes)
    done = done.with_report(report)
    outcome = "circulant" if processes > 1 else "one_process"
    assert done.outcomes("allgather_merge").keys() == {outcome}


@pytest.mark.parametrize("processes", [1, 3, *repeated(5)])
def test_example_in_python(mpi, report, tmp_path, processes):
    """The same through mpi4py."""
    script = mpi.build.parent.parent / "examples" / "merge_logs.py"
    command = [sys.executable, script, *arguments("merge_logs", tmp_path)]
    done = mpi.preloaded(processes, command, report, {})
    done.expect_success()
    check_example("merge_logs", done, processes)
    outcome = "circulant" if processes > 1 else "one_process"
    assert done.outcomes("allgather_merge").keys() == {outcome}


@pytest.mark.any_mpi
@pytest.mark.parametrize("processes", [1, 3, *repeated(5)])
def test_example_in_rust(mpi, report, tmp_path, processes):
    program = mpi.program("rust_merge_events")
    if not program.exists():
        pytest.skip("the Rust example is built for MPIs that mpi-sys can be built with")
    done = mpi.run(processes, [program], environment={"CIRCULANT_REPORT": str(report)})
    done.expect_success()
    assert re.search(rf"{processes} processes, \d+ events, in order", done.stdout), done.describe()
    outcome = "circulant" if processes > 1 else "one_process"
    assert done.with_report(report).outcomes("allgather_merge") == {outcome: 1}


# Lines that are out of order between files, and equal times, whose lines keep the order of files.
LOGS = {
    "a.log": ["2026-01-01T00:00:01 a starts", "2026-01-01T00:00:05 a waits", "2026-01-01T00:00:09 a ends"],
    "b.log": ["2026-01-01T00:00:01 b starts", "2026-01-01T00:00:02 b works", "2026-01-01T00:00:05 b waits"],
    "c.log": [],
    "d.log": ["2025-12-31T23:59:59 d starts", "2026-01-01T00:00:05 d waits"],
    "e.log": ["2026-01-01T00:00:05 e waits"] * 3,
}


def arguments(example, folder):
    if example != "merge_logs":
        return []
    for name, lines in LOGS.items():
        (folder / name).write_text("".join(line + "\n" for line in lines))
    return [folder / name for name in LOGS]


def check_example(example, done, processes):
    if example == "merge_logs":
        lines = [line for name in LOGS for line in LOGS[name]]
        assert done.stdout.splitlines() == sorted(lines, key=lambda line: line.split()[0]), done.describe()
    else:
        found = re.search(r"(\d+) numbers on (\d+) processes: sorted, at most (\d+) on one", done.stdout)
        assert found, done.describe()
        assert int(found[2]) == processes
