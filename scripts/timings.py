"""What scripts/bench measured: the rows of time.csv, one a timed call, and the figures in them.

    mpi, p, hosts         whose collective, on how many processes and hosts
    operation, input      MPI_X, and how the operand is shared out (docs/research/performance/method.md)
    size, bytes           of the whole operand, in bytes: asked for; used, where it does not divide evenly
    port_bytes            the least that must pass the busiest port in one direction
    variant               native or circulant
    repetition, repetitions  which timed call of the variant, and of how many
    seconds               of the slowest process, from a barrier on
    limit_s               what a port needs for port_bytes, streamed from point to point in the same run
    ran_as_circulant      by the library's counter, of how many calls, the untimed one included
    rate, library, settings, machine, date   what it was measured with
"""

import collections
import csv
import dataclasses
import lzma
import pathlib
import statistics
import sys

COLUMNS = set(
    "mpi p hosts operation input size bytes port_bytes variant repetition repetitions seconds limit_s "
    "ran_as_circulant rate library settings machine date".split()
)
OPERATIONS = [
    "bcast", "reduce", "allgather", "allgatherv", "reduce_scatter_block", "reduce_scatter", "allreduce", "alltoall",
    "gather", "scatter",
]  # fmt: skip
INPUTS = ["regular", "irregular", "degenerate"]
WITH_COUNTS = {"allgatherv", "reduce_scatter"}
SMALL = {"alltoall", "gather", "scatter"}  # whose algorithms are for small messages


@dataclasses.dataclass(frozen=True, order=True)
class Layout:
    """Processes on hosts, the same number on each."""

    p: int
    hosts: int

    @classmethod
    def of(cls, text):
        """16, or 8x4: four processes on each of 8 hosts."""
        hosts, _, per_host = text.partition("x")
        return cls(int(hosts) * int(per_host or 1), int(hosts))

    @property
    def per_host(self):
        return self.p // self.hosts

    @property
    def file_name(self):
        return str(self.p) if self.per_host == 1 else f"{self.hosts}x{self.per_host}"

    def __str__(self):
        return str(self.p) if self.per_host == 1 else f"{self.hosts} × {self.per_host}"


@dataclasses.dataclass(frozen=True)
class Case:
    """What is drawn in one plot, or stands in one cell of a table for each size."""

    operation: str
    input: str
    layout: Layout

    def __lt__(self, other):
        return self.place() < other.place()

    def place(self):
        return OPERATIONS.index(self.operation), INPUTS.index(self.input), self.layout


@dataclasses.dataclass
class Figure:
    """The timed calls of one variant with one size, in seconds."""

    low: float
    median: float
    high: float
    calls: int
    limit: float
    left_native: bool  # circulant's variant, but the library chose the native collective

    @classmethod
    def of(cls, rows):
        seconds = [float(row["seconds"]) for row in rows]
        first = rows[0]
        left_native = first["variant"] == "circulant" and first["ran_as_circulant"].startswith("0/")
        limit = float(first["limit_s"])
        return cls(min(seconds), statistics.median(seconds), max(seconds), len(seconds), limit, left_native)

    @property
    def over_limit(self):
        return self.median / self.limit


def read(path):
    """The whole rows of a file, which may be compressed (.xz); a last one that was cut is left out."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        del lines[-1]
    reader = csv.DictReader(lines)
    if missing := COLUMNS - set(reader.fieldnames or COLUMNS):
        sys.exit(f"{path} is not of this version of scripts/bench: there is no column {min(missing)}")
    return list(reader)


def figures(rows):
    """{Case: {(mpi, variant): {size: Figure}}}"""
    calls = collections.defaultdict(list)
    for row in rows:
        case = Case(row["operation"], row["input"], Layout(int(row["p"]), int(row["hosts"])))
        calls[case, row["mpi"], row["variant"], int(row["size"])].append(row)
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for (case, mpi, variant, size), rows_of_one in calls.items():
        cases[case][mpi, variant][size] = Figure.of(rows_of_one)
    return cases


def add_arguments(parser):
    """What scripts/tables and scripts/plot are told: where the rows are, and the size that they compare."""
    default = pathlib.Path(__file__).resolve().parent.parent / "bench-results"
    parser.add_argument(
        "folder", nargs="?", type=pathlib.Path, default=default, help="with time.csv or time.csv.xz (bench-results)"
    )
    parser.add_argument("--size", type=int, help="of the times over the limit, in bytes (the largest of all p)")


def given_rows(given):
    """The rows in the folder; ends the program, by name, where there are none."""
    path = given.folder / "time.csv"
    packed = path.with_suffix(".csv.xz")
    if not path.is_file() and not packed.is_file():
        sys.exit(f"there is no {path}; scripts/bench makes it")
    rows = read(path if path.is_file() else packed)
    if not rows:
        sys.exit(f"{path} has no rows")
    return rows


def given_figures(given):
    """The figures in the folder, and the size; ends the program, by name, where there is no such thing."""
    cases = figures(given_rows(given))
    size = given.size or largest_common_size(cases)
    if all(size not in curve for curves in cases.values() for curve in curves.values()):
        sys.exit(f"{given.folder / 'time.csv'} has no size {size}")
    return cases, size


def mpis_of(cases):
    return sorted({mpi for curves in cases.values() for mpi, _ in curves})


def largest_common_size(cases):
    """The largest that was measured with every layout; the largest of all, if there is none."""
    sizes = collections.defaultdict(set)
    for case, curves in cases.items():
        sizes[case.layout].update(size for curve in curves.values() for size in curve)
    return max(set.intersection(*sizes.values()) or set.union(*sizes.values()))


def bytes_text(size):
    for unit, text in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:g} {text}"
    return f"{size:g} B"


def seconds_text(seconds):
    for unit, text in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.999 * unit:
            return f"{seconds / unit:.3g} {text}"
    return f"{seconds * 1e9:.3g} ns"


def table(headings, rows):
    """In Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
