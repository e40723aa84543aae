"""A small run under valgrind: nothing that the library allocated is lost, and it does not touch
memory that is not its own.

The MPI libraries lose memory themselves. A loss counts when the library is anywhere on the stack of
the allocation: then also what the MPI allocated on its behalf, such as a private communicator.
"""

import re
import shutil
from xml.etree import ElementTree

import pytest

from test_programs import LANES, SHARED, counted

CALLS = [
    "bcast:10000x3",
    "bcast-vector:10000x2",
    "reduce:10000x3",
    "reduce-vector:10000x2",
    "allgather:10000x2",
    "allgatherv:10000x2",
    "reduce_scatter_block:10000x2",
    "reduce_scatter:10000x2",
]
ACCESSES = {
    "InvalidRead",
    "InvalidWrite",
    "InvalidFree",
    "InvalidJump",
    "MismatchedFree",
    "Overlap",
}
UNINITIALISED = {"UninitCondition", "UninitValue"}
LOST = {"Leak_DefinitelyLost", "Leak_IndirectlyLost"}


def frames(error):
    """File and function of each frame of an error's stacks, innermost first."""
    return [(f.findtext("obj", ""), f.findtext("fn", "")) for f in error.iter("frame")]


def is_ours(error):
    kind, stack = error.findtext("kind"), frames(error)
    depths = [depth for depth, (name, _) in enumerate(stack) if "libcirculant" in name]
    if not depths:
        return False
    innermost = depths[0]
    if kind in UNINITIALISED:
        # Deeper down, the MPI copies the program's padding.
        return innermost == 0
    # A call that was passed on as it came, MPI_Init above all, is the MPI's own affair.
    names = [function.removeprefix("P") for _, function in stack]
    passed_on = innermost > 0 and names[innermost - 1] == names[innermost]
    return kind in ACCESSES | LOST and not passed_on


def valgrind(directory, *command):
    return [
        "valgrind",
        "--leak-check=full",
        "--num-callers=60",
        "--xml=yes",
        f"--xml-file={directory}/%p.xml",
        *command,
    ]


@pytest.mark.parametrize("program", ["sequence", pytest.param("attributes", marks=pytest.mark.any_mpi)])
def test_valgrind(mpi, report, tmp_path, program):
    assert shutil.which("valgrind"), "valgrind is not installed; scripts/setup installs it"
    calls = CALLS if program == "sequence" else []
    command = valgrind(tmp_path, mpi.program(program), *calls)
    settings = {"FORCE": 1, "BLOCKS": 3}
    run = mpi.preloaded(2, command, report, settings, timeout=300).expect_success()
    assert "failures=0" in run.stdout
    assert run.outcomes("bcast")["circulant"] > 0
    files = list(tmp_path.glob("*.xml"))
    assert len(files) == 2
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.findtext("status[last()]/state") == "FINISHED"
        ours = [error for error in root.iter("error") if is_ours(error)]
        shown = [ElementTree.tostring(error, encoding="unicode") for error in ours[:3]]
        assert not ours, "\n".join(shown)


SHORTAGES = {
    "forced": (5, {"FORCE": 1}, []),
    "learning": (2, {"SELECT": "tune", "NODE_SIZE": 1}, [30000]),
    "leaders": (3, {"FORCE": 1, "NODE_SIZE": 2}, []),
    "lanes": (4, {"FORCE": 1, "NODE_SIZE": 2, **LANES}, []),
    "checked": (2, {"FORCE": 1, "CHECK": 1}, []),
    "shared": (3, {"FORCE": 1, **SHARED}, []),
}


@pytest.mark.parametrize("case", SHORTAGES)
def test_allocations_that_fail(mpi, report, case):
    """Whichever it is, no call notices, but that all ranks run it natively where it is scratch; and each process
    whose memory was short says so."""
    processes, settings, arguments = SHORTAGES[case]
    settings = {**settings, "PROFILE_SAVE": report.with_suffix(".toml")}
    command = [mpi.program("shortage"), *arguments]
    run = mpi.preloaded(processes, command, report, settings, trapped=True).expect_success()
    assert "failures=0" in run.stdout
    if "FORCE" in settings:
        native = 0
        for operation, of in run.all_outcomes().items():
            assert of.keys() <= {"circulant", "memory"}, operation
            assert sum(of.values()) == counted(run.stdout)[operation]["circulant"], operation
            native += of.get("memory", 0)
        assert native > 0
    else:
        assert run.tried() or any("trial" in of for of in run.all_outcomes().values())
    said = re.findall(r"^circulant: rank (\d+): memory was short: \d+ small", run.stderr, re.MULTILINE)
    assert sorted(map(int, said)) == [*range(processes)], run.describe()
