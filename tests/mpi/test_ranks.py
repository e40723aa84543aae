"""The report over all ranks, beside what the program says of each of them."""

import collections
import dataclasses
import json
import re
import statistics
import subprocess
from xml.etree import ElementTree

import pytest

PROCESSES = [1, 3, 5]
SETTINGS = [{"FORCE": 1}, {"DISABLE": 1}, {}]


@dataclasses.dataclass
class Made:
    """The calls of one rank, of one operation and size."""

    rank: int
    operation: str
    bytes: int
    calls: int
    first: int
    seconds: float

    @property
    def kind(self):
        return self.operation, 1 << max(self.bytes.bit_length() - 1, 0)


def made(run):
    """By kind: the calls of each rank, as the program counts them."""
    lines = re.findall(r"^made (\d+) (\w+) (\d+) (\d+) (\d+) ([\d.]+)$", run.stdout, re.MULTILINE)
    assert lines, run.describe()
    kinds = collections.defaultdict(list)
    for rank, operation, size, calls, first, seconds in lines:
        one = Made(int(rank), operation, int(size), int(calls), int(first), float(seconds))
        kinds[one.kind].append(one)
    return kinds


def rows(run):
    assert run.report["ranks"] is not None, run.describe()
    assert "ranks_missing" not in run.report
    return {(row["operation"], row["bytes"]): row for row in run.report["ranks"]["sizes"]}


@pytest.fixture
def ranks(mpi, report):
    """ranks(settings, processes): a successful run of the program `ranks`."""

    def run(settings, processes, *arguments):
        run = mpi.preloaded(processes, [mpi.program("ranks"), *arguments], report, settings)
        return run.expect_success()

    return run


def check_times(row, all_made):
    """The library's clock is read within the program's. Both are read in all calls."""
    seconds = row["seconds"]
    of_ranks = sorted(one.seconds for one in all_made)
    within = {"least": of_ranks[0], "mean": statistics.mean(of_ranks), "most": of_ranks[-1]}
    for name, most in within.items():
        assert 0 < seconds[name] <= most + 1e-6, (row, within)
    assert seconds["least"] <= seconds["mean"] * (1 + 1e-9) <= seconds["most"] * (1 + 2e-9)
    assert 0 <= row["waiting_seconds"] <= seconds["mean"]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("processes", PROCESSES)
def test_what_ranks_did(ranks, processes, settings):
    run = ranks(settings, processes)
    found, expected = rows(run), made(run)
    assert found.keys() == expected.keys()
    total = {"ran": run.report["ranks"]["run_seconds"]["mean"] * processes, "taken": 0}
    for kind, row in found.items():
        calls = [one.calls for one in expected[kind]]
        first = sum(one.first for one in expected[kind])
        assert (row["ranks"], row["calls"]) == (len(calls), first), row
        of_rank = {"least": min(calls), "mean": statistics.mean(calls), "most": max(calls)}
        assert row["calls_of_rank"] == pytest.approx(of_rank)
        assert row["sum_of_bytes"] == first * expected[kind][0].bytes
        assert sum(ran["calls"] for ran in row["ran"].values()) == row["calls"]
        taken = sum(ran["seconds"] for ran in row["ran"].values())
        assert taken == pytest.approx(row["seconds"]["mean"] * row["ranks"])
        assert row["share_of_run"] == pytest.approx(taken / total["ran"])
        check_times(row, expected[kind])
        total["taken"] += taken
    assert total["taken"] < total["ran"]
    assert found["bcast", 32768]["processes"] == processes
    assert found["bcast", 32768]["nodes"] == run.report["ranks"]["nodes"] == 1
    assert found["reduce", 64]["processes"] == 1
    sizes = [(processes + 1) // 2, processes // 2]
    both = found["allreduce", 4096]
    assert [both["processes"], both["fewest_processes"]] == [sizes[0], sizes[1] or sizes[0]]


@pytest.mark.parametrize("processes", [3, 5])
def test_waiting_for_a_late_rank(ranks, processes):
    """It comes 0.05 s late to each of six calls, and all others wait for it."""
    row = rows(ranks({"DISABLE": 1}, processes))["bcast", 32768]
    assert row["waiting_seconds"] > 0.5 * 0.3 * (processes - 1) / processes, row
    assert row["seconds"]["most"] > 0.5 * 0.3, row


@pytest.mark.parametrize("processes", PROCESSES)
def test_runs_line_up(ranks, processes):
    """Whoever runs the calls, these are the same, of the same operations and sizes."""
    same = ["operation", "bytes", "processes", "fewest_processes", "ranks", "calls", "calls_of_rank", "sum_of_bytes"]
    runs = [rows(ranks(settings, processes)) for settings in SETTINGS]
    lined_up = [[[row[name] for name in same] for row in run.values()] for run in runs]
    assert lined_up[0] == lined_up[1] == lined_up[2]
    forced, disabled, _ = runs
    assert all(row["ran"].keys() == {"native"} for row in disabled.values())
    if processes > 1:
        assert "native" not in forced["bcast", 32768]["ran"]


@pytest.mark.any_mpi
def test_nodes_are_those_of_the_settings(ranks):
    run = ranks({"NODE_SIZE": 2, "FORCE": 1}, 5)
    assert run.report["ranks"]["nodes"] == 3
    assert rows(run)["bcast", 32768]["nodes"] == 3


def test_every_process_writes_the_same(mpi, tmp_path):
    settings = {"REPORT": tmp_path / "%r.json"}
    mpi.preloaded(3, [mpi.program("ranks")], tmp_path / "none", settings).expect_success()
    first, *others = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert first["ranks"]["processes"] == 3
    assert all(other["ranks"] == first["ranks"] for other in others)


@pytest.mark.parametrize("ending", ["kill", "exit"])
def test_a_rank_that_does_not_finalize(mpi, report, ending):
    """Rank 0 has written what it knows before. Nothing hangs that does not natively."""
    command = [mpi.program("ranks"), ending]
    native = mpi.native(3, command, timeout=60)
    run = mpi.preloaded(3, command, report, timeout=60)
    assert native.status is not None and run.status is not None, run.describe()
    # MPICH's launcher may or may not mind that a process ends so, natively as well.
    assert ending == "exit" or native.status != 0 != run.status, run.describe()
    if run.report["ranks"] is None:
        assert "has not come to MPI_Finalize" in run.report["ranks_missing"]
    assert run.outcomes("bcast")


def only_on_rank_0(text):
    return ["sh", "-c", f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ] {text}; exec "$0" "$@"']


@pytest.mark.parametrize("program", ["ranks", "sequence"])
def test_report_that_only_rank_0_asks_for(mpi, report, program):
    """Its settings are those of the job; also where the others have called nothing that needs these."""
    command = only_on_rank_0("|| unset CIRCULANT_REPORT") + [mpi.program(program)]
    run = mpi.preloaded(3, command, report).expect_success()
    assert run.report["ranks"]["processes"] == 3
    if program == "ranks":
        assert {kind: row["ranks"] for kind, row in rows(run).items()} == {
            kind: len(all_made) for kind, all_made in made(run).items()
        }


def test_report_that_rank_0_does_not_ask_for(mpi, tmp_path):
    command = only_on_rank_0("&& unset CIRCULANT_REPORT") + [mpi.program("ranks")]
    mpi.preloaded(3, command, tmp_path / "none", {"REPORT": tmp_path / "%r.json"}).expect_success()
    assert not (tmp_path / "0.json").exists()
    for rank in [1, 2]:
        alone = json.loads((tmp_path / f"{rank}.json").read_text())
        assert alone["ranks"] is None and "not set on rank 0" in alone["ranks_missing"]
        assert alone["operations"]


def test_rank_without_the_library(mpi, report):
    command = only_on_rank_0("|| unset LD_PRELOAD") + [mpi.program("ranks")]
    run = mpi.preloaded(3, command, report).expect_success()
    assert run.report["ranks"] is None
    assert run.report["ranks_missing"] == "not every rank runs with this circulant"


def circulant(mpi, *arguments):
    command = [mpi.build / "circulant", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"


@pytest.mark.any_mpi
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_page_needs_nothing_else(mpi, ranks, report, settings):
    run = ranks(settings, 3)
    page = report.with_suffix(".html")
    shown = circulant(mpi, "report", report, "--html", page)
    assert "Over all 3 ranks on 1 node" in shown
    root = ElementTree.fromstring(page.read_text())
    elements = list(root.iter())
    # No element refers to anything, and no style does.
    assert {element.tag.rpartition("}")[2] for element in elements}.isdisjoint(
        {"script", "link", "img", "image", "iframe", "object", "embed", "use", "a", "base", "audio", "video"}
    )
    for element in elements:
        for name, value in element.attrib.items():
            assert not re.search(r"src|href|^on", name) and not re.search(r"//|url\(|:", value), (element.tag, name, value)
    (style,) = root.iter(f"{XHTML}style")
    assert not re.search(r"url|@import|//", style.text)
    (body,) = root.iter(f"{XHTML}tbody")
    cells = [["".join(cell.itertext()) for cell in line] for line in body]
    kinds = [(operation, int(size)) for operation, size, *_ in cells]
    assert kinds == list(rows(run)) and [int(line[4]) for line in cells] == [row["calls"] for row in rows(run).values()]
    titles = [title.text for title in root.iter(f"{SVG}title") if title.text]
    assert sum(title.startswith("waiting: ") for title in titles) == len(kinds)


@pytest.mark.any_mpi
def test_runs_are_compared_over_all_ranks(mpi, ranks, report):
    files = []
    for name, settings in [("native", {"DISABLE": 1}), ("forced", {"FORCE": 1})]:
        ranks(settings, 5)
        files.append(report.rename(report.with_name(f"{name}.json")))
    shown = circulant(mpi, "compare", *files)
    assert "run time: " in shown and "CIRCULANT_DISABLE: 1, then 0" in shown, shown
    assert "did not make the same calls" not in shown, shown
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if "|" in line]
    (line,) = [line for line in lines if line[:2] == ["bcast", "32768"]]
    assert line[2:6] == ["5", "1", "6", "6"] and line[-2:] == ["native 6", "circulant 6"], line


@pytest.mark.any_mpi
def test_the_table_is_readable(mpi):
    run = mpi.run(3, [mpi.program("ranks")], mpi.library, {"CIRCULANT_REPORT": "stderr"}).expect_success()
    lines = run.stderr.splitlines()
    assert all(line.startswith("circulant: ") and len(line) <= 120 for line in lines), run.describe()
    (heading,) = [line for line in lines if "ran by" in line]
    after = lines[lines.index(heading) + 1 :]
    rows = [line.split()[1:3] for line in after[:-2]]
    assert ["bcast", "32K"] in rows and ["allreduce", "4K"] in rows, run.describe()


@pytest.mark.parametrize("command", [["threads"], ["finalize"], ["sessions", "initialized"]])
def test_other_programs(mpi, report, command):
    """With threads, with collectives in MPI_Finalize, with sessions beside MPI_Init."""
    if command[0] == "sessions" and mpi.build.name.startswith("openmpi-4"):
        pytest.skip("Open MPI 4.1 has no sessions")
    program, *arguments = command
    run = mpi.preloaded(3, [mpi.program(program), *arguments], report, {"FORCE": 1}).expect_success()
    calls = sum(row["calls"] for row in run.rows())
    assert sum(row["calls_of_rank"]["mean"] * row["ranks"] for row in rows(run).values()) >= calls


def test_spawned_processes_have_a_report_of_their_own(mpi, report):
    command = [mpi.program("spawn")]
    # As in test_programs.py.
    if mpi.family != "openmpi" and mpi.native(2, command, spawns=True).status != 0:
        pytest.skip("this MPI's launcher starts no processes for programs")
    run = mpi.preloaded(2, command, report, {"FORCE": 1}, spawns=True).expect_success()
    (other,) = report.parent.glob(report.name + ".spawned-*")
    children = run.with_report(other)
    assert [job.report["ranks"]["processes"] for job in (run, children)] == [2, 3]
    for job in (run, children):
        # On the job's own processes, and on those of both.
        assert {row["ranks"] for row in rows(job).values()} == {job.report["processes"]}
