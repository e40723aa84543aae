"""The examples: built, run on a real graph, and compared with a serial run by themselves, and with each other."""

import pathlib

import pytest

from cases import on_any_mpi, repeated

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GRAPH = ROOT / "examples" / "data" / "karate.mtx"
# Zachary's graph: its diameter, and the mean of its distances, are in every text on it.
EXPECTED = "34 vertices, longest distance 5, mean 2.4082\nas a serial run\n"
# mpi-sys, by which Rust programs have MPI's handles, does not build with the standard ABI.
WITHOUT_RUST = ["mpiabi"]


def command_of(mpi, language):
    if language == "python":
        return [mpi.build / "venv/bin/python", ROOT / "examples/floyd_warshall.py", GRAPH]
    if language == "rust" and mpi.family in WITHOUT_RUST:
        pytest.skip(f"no Rust on {mpi.family}")
    return [mpi.program({"c": "example", "rust": "rust"}[language] + "_floyd_warshall"), GRAPH]


@pytest.mark.parametrize("settings", [{}, {"SUCCESSIVE_BCAST": "native"}], ids=["circulant", "native"])
@pytest.mark.parametrize("language", ["c", *on_any_mpi("rust"), "python"])
@pytest.mark.parametrize("processes", [1, 3, *repeated(2, 4, 5)])
def test_example(mpi, report, processes, language, settings):
    # The C and the Rust program are linked with the library, the Python program finds it preloaded.
    library = mpi.library if language == "python" else None
    environment = {f"CIRCULANT_{name}": value for name, value in {"REPORT": str(report), **settings}.items()}
    run = mpi.run(processes, command_of(mpi, language), library, environment).with_report(report)
    run.expect_success()
    assert run.stdout == EXPECTED, run.describe()
    expected = "one_process" if processes == 1 else "chosen" if settings else "circulant"
    assert run.outcomes("successive_bcast") == {expected: 1}


def test_example_with_a_wrong_file(mpi, report):
    """An error in a file is said, and ends the job."""
    run = mpi.run(1, [mpi.program("example_floyd_warshall"), ROOT / "README.md"])
    assert run.status != 0
    assert "README.md: not a real coordinate matrix" in run.stderr
