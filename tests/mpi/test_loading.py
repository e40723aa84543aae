"""What the library exports and needs, what it does in programs that do not call MPI, and how a
program can be linked with it instead of preloading."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from cases import repeated

HERE = pathlib.Path(__file__).parent


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_exported_symbols(mpi):
    """The same from every build, which serves MPIs with and without large counts; nothing else."""
    names = [line.split()[-1] for line in lines("nm", "-D", "--defined-only", mpi.library)]
    listed = (HERE / "symbols.txt").read_text().split()
    assert sorted(names) == sorted(listed)


def test_needs_no_mpi(mpi):
    """It finds the MPI that the program has; of its own it brings none."""
    needed = [line for line in lines("readelf", "-d", mpi.library) if "(NEEDED)" in line]
    assert needed
    assert not [line for line in needed if "mpi" in line.lower()]
    undefined = [line.split()[-1] for line in lines("nm", "-D", "--undefined-only", mpi.library)]
    assert undefined
    assert not [name for name in undefined if "mpi" in name.lower()]


BYSTANDERS = {
    "true": ["/bin/true"],
    "sh": ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
    "ls": ["ls", "/"],
    "python": [sys.executable, "-c", "import ctypes, threading; print(6 * 7)"],
    "mpirun": ["{mpirun}", "--version"],
}


@pytest.mark.parametrize("name", BYSTANDERS)
def test_bystander(mpi, tmp_path, name):
    """A program that never calls MPI is not affected, not even by wrong settings."""
    command = [argument.format(mpirun=mpi.mpirun) for argument in BYSTANDERS[name]]
    report = tmp_path / "report.json"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(mpi.library),
        "CIRCULANT_REPORT": str(report),
        "CIRCULANT_VERBOSE": "1",
        "CIRCULANT_BLOCKS": "nonsense",
        "CIRCULANT_NONSENSE": "1",
    }
    results = [
        subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
        for env in (None, environment)
    ]
    plain, preloaded = [(run.returncode, run.stdout, run.stderr) for run in results]
    assert preloaded == plain
    assert not report.exists()


@pytest.mark.parametrize("processes", [*repeated(1), 2, *repeated(5)])
@pytest.mark.parametrize("how", ["shared", "static"])
def test_linked_fortran(mpi, native_run, report, how, processes):
    if not mpi.program(f"linked-fortran-{how}").exists():
        pytest.skip("this MPI has no mpif.h for this Fortran compiler")
    native = native_run("fortran_mpif", processes)
    environment = {"CIRCULANT_FORCE": "1", "CIRCULANT_REPORT": str(report)}
    run = mpi.run(processes, [mpi.program(f"linked-fortran-{how}")], environment=environment)
    run = run.expect_success().with_report(report)
    assert run.stdout == native.stdout, run.describe()
    calls = dict(re.findall(r"^calls (\w+) (\d+)$", run.stdout, re.MULTILINE))
    outcome = "circulant" if processes > 1 else "one_process"
    assert run.all_outcomes() == {name: {outcome: int(n)} for name, n in calls.items()}


@pytest.mark.parametrize("processes", [1, 2, *repeated(5)])
@pytest.mark.parametrize("how", ["shared", "static"])
def test_linked(mpi, report, how, processes):
    program = mpi.program(f"linked-{how}")
    needed = [line for line in lines("readelf", "-d", program) if "libcirculant" in line]
    assert bool(needed) == (how == "shared")
    calls = ["bcast:40000x3", "reduce:400", "allgatherv:40000", "reduce_scatter:40000"]
    environment = {"CIRCULANT_FORCE": "1", "CIRCULANT_REPORT": str(report)}
    run = mpi.run(processes, [program, *calls], environment=environment).expect_success()
    run = run.with_report(report)
    outcome = "circulant" if processes > 1 else "one_process"
    assert run.all_outcomes() == {
        "bcast": {outcome: 3},
        "reduce": {outcome: 1},
        "allgatherv": {outcome: 1},
        "reduce_scatter": {outcome: 1},
    }
