"""MPICH's own test suite, which scripts/mpich-suite builds for an MPI: on demand (--whole), what passes
natively passes under the library.

A line of one of its lists names a program, a number of processes and name=value: arguments, variables of
the environment, a time limit, and how the outcome is judged.
"""

import contextlib
import dataclasses
import fcntl
import pathlib
import re

import pytest

from conftest import mpi_of
from test_mpi4py import REASONS

# Where the programs are that call our operations, and generated datatypes concern these.
COLLECTIVES = "coll"
# Programs that write files, by names that several of them share.
ONE_AT_A_TIME = "io"
# Programs with sessions only, which run natively, and without a report.
SESSIONS = "session"


@dataclasses.dataclass
class Line:
    """A line of a list."""

    folder: pathlib.Path
    program: str
    processes: int
    options: list  # pairs of a name and a value

    def all_of(self, name):
        return [value for key, value in self.options if key == name]

    @property
    def judged_by(self):
        return next(iter(self.all_of("resultTest")), None)

    @property
    def timeout(self):
        return max([180, *map(int, self.all_of("timeLimit"))])

    @property
    def command(self):
        environment = ["env", *self.all_of("env")] if self.all_of("env") else []
        return [*environment, f"./{self.program}", *self.all_of("arg")]

    def name(self, suite):
        rest = [f"{key}={value}" for key, value in self.options if key in ("arg", "env")]
        return "-".join([str(self.folder.relative_to(suite) / self.program), str(self.processes), *rest])


def lines_of(suite):
    for file in sorted(suite.rglob("testlist*")):
        generated = file.name == "testlist.dtp" and file.parent == suite / COLLECTIVES
        if file.name != "testlist" and not generated:
            continue
        for line in file.read_text().splitlines():
            words = line.split("#")[0].split()
            if words and (file.parent / words[0]).is_file():
                options = [tuple(word.split("=", 1)) for word in words[2:] if "=" in word]
                if "xfail" in dict(options):
                    continue  # known to fail on MPICH
                processes = int(words[1]) if len(words) > 1 else 2
                yield Line(file.parent, words[0], processes, options)


def pytest_generate_tests(metafunc):
    suite = mpi_of(metafunc.config).build / "mpich-suite"
    # Half an hour's work: none without --whole, nor where the suite was not built.
    lines = lines_of(suite) if metafunc.config.getoption("--whole") else []
    metafunc.parametrize("line", [pytest.param(line, id=line.name(suite)) for line in lines])


@contextlib.contextmanager
def alone(folder):
    """While no other worker is here with this folder, if its programs write files of the same names."""
    with open(folder / "testlist", encoding="utf-8") as file:
        if folder.name == ONE_AT_A_TIME:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def passed(line, run):
    """As the suite's own script judges it."""
    said = (run.stdout + run.stderr).split("\n")
    found = any(re.fullmatch(r"\s*No [Ee]rrors\s*", text) for text in said)
    other = [text for text in said if not re.fullmatch(r"\s*(No [Ee]rrors|Test Passed)?\s*", text)]
    if line.judged_by in ("TestStatus", "TestErrFatal"):
        return run.status not in (0, None)
    if line.judged_by == "TestStatusNoErrors":
        return run.status not in (0, None) and found and not other
    return run.status == 0 and found and not other


def test_line(mpi, report, line):
    with alone(line.folder):
        check_line(mpi, report, line)


def check_line(mpi, report, line):
    spawns = line.folder.name == "spawn"
    options = {"timeout": line.timeout, "spawns": spawns, "folder": line.folder}
    native = mpi.native(line.processes, line.command, **options)
    if not passed(line, native):
        pytest.skip("fails natively")
    run = mpi.preloaded(line.processes, line.command, report, {"FORCE": 1}, trapped=True, **options)
    assert passed(line, run), run.describe()
    if run.status == 0 and not line.program.startswith(SESSIONS):
        assert run.report is not None, "the library was not there\n" + run.describe()
        if line.folder.name == COLLECTIVES and line.folder.parent.name != "errors":
            prove_calls(line, run)


def prove_calls(line, run):
    """Calls were ours, but for those that cannot be."""
    of = {outcome for outcomes in run.all_outcomes().values() for outcome in outcomes}
    assert of <= {"circulant"} | REASONS, of
    assert "circulant" in of or not of or line.processes == 1, of
