"""Runs under valgrind: nothing that the library allocated is lost, and it does not touch memory that is
not its own. And what it does where there is no memory.

The MPI libraries lose memory themselves. A loss counts when the library is anywhere on the stack of
the allocation: then also what the MPI allocated on its behalf, such as a private communicator.
"""

import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from cases import repeated
from launch import OPERATIONS
from test_programs import ARGUMENTS, LANES, OTHERS, SHARED, SHARED_BY_NODES, TRAPPED, counted

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


@pytest.mark.parametrize("program", ["sequence", *repeated("attributes")])
def test_valgrind(mpi, report, tmp_path, program):
    assert shutil.which("valgrind"), "valgrind is not installed; scripts/setup installs it"
    calls = CALLS if program == "sequence" else []
    command = valgrind(tmp_path, mpi.program(program), *calls)
    settings = {"FORCE": 1, "BLOCKS": 3}
    run = mpi.preloaded(2, command, report, settings, timeout=300).expect_success()
    assert "failures=0" in run.stdout
    assert run.outcomes("bcast")["circulant"] > 0
    expect_no_errors(tmp_path, 2)


def errors(directory, processes):
    """Those of ours that valgrind has written there, of so many processes that came to their end."""
    files = list(directory.glob("*.xml"))
    assert len(files) == processes
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.findtext("status[last()]/state") == "FINISHED"
        yield from (error for error in root.iter("error") if is_ours(error))


def expect_no_errors(directory, processes):
    shown = [ElementTree.tostring(error, encoding="unicode") for error in errors(directory, processes)]
    assert not shown, "\n".join(shown[:3])


# Every self-checking program that test_programs.py runs natively and under the library, and those of what
# MPI does not have. `allocation` is left out: it has a malloc of its own.
PROGRAMS = {
    **{program: ARGUMENTS.get(program, []) for program in OPERATIONS},
    **{f"{program}_c": ARGUMENTS.get(f"{program}_c", []) for program in OPERATIONS},
    **{program: ARGUMENTS.get(program, []) for program in OTHERS if program != "allocation"},
    "corners": ["elements", "aligned", "empty", "duplicate"],
    "disagreements": ["sizes"],
    "errors": [],
    "exhaustion": [],
    "finalize": [],
    "handles": [],
    "intergroup": [],
    "large_c": [],
    "merge": [],
    "pcontrol": [],
    "sequence": [f"{operation}:400000x4" for operation in OPERATIONS],
    "sessions": ["initialized"],
    "successive": [],
}
WAYS = {
    "forced": (3, {"FORCE": 1, "BLOCKS": 3}),
    "default": (2, {}),
    "shared": (3, {"FORCE": 1, **SHARED}),
    "leaders": (3, {"FORCE": 1, "NODE_SIZE": 2}),
    "lanes": (4, {"FORCE": 1, "NODE_SIZE": 2, **LANES}),
    "shared by nodes": (4, {"FORCE": 1, "NODE_SIZE": 2, **SHARED_BY_NODES}),
}
# What MPIs do not survive, or get wrong, where calls go to them.
NOT_NATIVE = {"corners", "disagreements"}
ALL_WAYS = [(program, way) for program in PROGRAMS for way in WAYS if way != "default" or program not in NOT_NATIVE]


def case_of(mpi, program, way):
    """Processes, settings, command."""
    if program == "sessions" and mpi.build.name.startswith("openmpi-4."):
        pytest.skip("Open MPI 4.1 has no sessions")
    processes, settings = WAYS[way]
    arguments = PROGRAMS[program]
    if way in ("default", "shared") and program in ARGUMENTS:
        # What is demanded of the library, but not of the MPI, which gets such calls also where memory is shared.
        arguments = []
    if program == "disagreements":
        # Of several blocks, or by leaders, processes that disagree on the size may wait for ever.
        settings = {**settings, "BLOCKS": 1}
        arguments = [] if "NODE_SIZE" in settings else arguments
    return processes, settings, [mpi.program(program), *arguments]


def expect_ours(run, settings):
    run.expect_success()
    assert "failures=0" in run.stdout, run.describe()
    if "FORCE" in settings:
        assert any("circulant" in of for of in run.all_outcomes().values()), run.describe()


def is_long(program, way):
    """By default, functions for large counts send calls on as the others do; and the ways that depend on nodes
    are there for all calls in one program."""
    return program.endswith("_c") if way == "default" else way != "forced" and program != "sequence"


@pytest.mark.repeats
@pytest.mark.parametrize("program, way", [case for case in ALL_WAYS if not is_long(*case)])
def test_programs_under_valgrind(mpi, report, tmp_path, program, way):
    """All of them, on Debian's MPIs: of those, valgrind knows what it has to know."""
    if not mpi.build.name.startswith(("openmpi-4.", "mpich-4.")):
        pytest.skip("another MPI than Debian's")
    processes, settings, command = case_of(mpi, program, way)
    command = valgrind(tmp_path, *command)
    run = mpi.preloaded(processes, command, report, settings, trapped=program in TRAPPED, timeout=1200)
    expect_ours(run, settings)
    expect_no_errors(tmp_path, processes)


@pytest.mark.repeats
def test_valgrind_finds_errors(mpi, report, tmp_path):
    command = valgrind(tmp_path, mpi.program("corners"), "short")
    mpi.preloaded(2, command, report, {"FORCE": 1}, timeout=300).expect_success()
    assert "InvalidRead" in {error.findtext("kind") for error in errors(tmp_path, 2)}


@pytest.fixture(scope="session")
def instrumented(pytestconfig):
    """The compiler's runtime library of AddressSanitizer, and a build of the library that needs it: Rust links
    none with a shared library."""
    library = pytestconfig.getoption("--instrumented")
    if not library:
        pytest.skip("no instrumented build; scripts/undefined makes one")
    runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
    return [runtime, library]


# Leaks are valgrind's to find: here the MPI's own would count. Of what is preloaded, the runtime is not the first.
ADDRESS = "detect_leaks=0:verify_asan_link_order=0"


@pytest.mark.repeats
@pytest.mark.parametrize("program, way", ALL_WAYS)
def test_programs_under_address_sanitizer(mpi, report, instrumented, monkeypatch, program, way):
    """Which sees what valgrind cannot: accesses beside what is static or on the stack. It ends a process at its
    first error."""
    processes, settings, command = case_of(mpi, program, way)
    monkeypatch.setenv("ASAN_OPTIONS", ADDRESS)
    options = {"trapped": program in TRAPPED, "library": instrumented, "timeout": 600}
    run = mpi.preloaded(processes, command, report, settings, **options)
    expect_ours(run, settings)
    assert "AddressSanitizer" not in run.stderr, run.describe()


@pytest.mark.repeats
def test_address_sanitizer_finds_errors(mpi, report, instrumented, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", ADDRESS)
    command = [mpi.program("corners"), "short"]
    run = mpi.preloaded(2, command, report, {"FORCE": 1}, library=instrumented)
    assert run.status != 0 and "heap-buffer-overflow" in run.stderr, run.describe()
    assert "src/mpi/memory.rs" in run.stderr, run.describe()


SHORTAGES = {
    "forced": (5, {"FORCE": 1}, []),
    "learning": (2, {"SELECT": "tune", "NODE_SIZE": 1}, [30000]),
    "leaders": (3, {"FORCE": 1, "NODE_SIZE": 2}, []),
    "lanes": (4, {"FORCE": 1, "NODE_SIZE": 2, **LANES}, []),
    "checked": (2, {"FORCE": 1, "CHECK": 1}, []),
    "shared": (3, {"FORCE": 1, **SHARED}, []),
    "shared by nodes": (4, {"FORCE": 1, "NODE_SIZE": 2, **SHARED_BY_NODES}, []),
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


# How many allocations succeed, how many fail then, and on which rank; else on all. Some 350 to 500 are made in MPI_Init
# and the first calls, and some 5,000 in MPI_Finalize, by the rank that writes a report.
ENDS = [
    (0, 10**6, []),
    (0, 10**6, [0]),
    (0, 10**6, [1]),
    (500, 10**6, []),
    *((after, 1, []) for after in (0, 1, 3, 20, 100, 400, 2000)),
]
MORE_ENDS = [(after, 1, []) for after in range(2, 400, 7)] + [(after, 10**6, [0]) for after in range(10, 6000, 97)]


@pytest.mark.parametrize(
    "after, times, ranks", ENDS + [pytest.param(*case, marks=pytest.mark.repeats) for case in MORE_ENDS]
)
def test_allocations_that_fail_at_the_ends(mpi, report, profile, after, times, ranks):
    """In MPI_Init, where a profile is read, and in MPI_Finalize: no result is wrong, every process comes to its end,
    and a profile or a report that is not written is named."""
    saved = report.with_name("saved.toml")
    settings = {"FORCE": 1, "PROFILE": profile(3, 9, 0.001), "PROFILE_SAVE": saved}
    environment = mpi.variables(report, settings)
    command = [mpi.program("shortage"), "ends", after, times, *ranks]
    run = mpi.run(3, command, mpi.library, environment).expect_success()
    assert "failures=0" in run.stdout, run.describe()
    parts = re.findall(r"^(beginning|end) allocations=(\d+) failed=(\d+)$", run.stdout, re.MULTILINE)
    assert [part for part, *_ in parts].count("beginning") == 3 and len(parts) == 6, run.describe()
    failed = {part: sum(int(number) for which, _, number in parts if which == part) for part, *_ in parts}
    assert after > 300 or failed["beginning"] > 0, run.describe()
    assert after > 4000 or sum(failed.values()) > 0, run.describe()
    for variable, file in [("REPORT", report), ("PROFILE_SAVE", saved)]:
        named = f"circulant: CIRCULANT_{variable}={file} " in run.stderr
        assert file.exists() or named, run.describe()
    if report.exists():
        written = json.loads(report.read_text())
        assert written["ranks"] or "CIRCULANT_REPORT=" in run.stderr, run.describe()
