"""What the tests have in common: the MPI under test, and its native runs, made once each."""

import pathlib

import pytest

from launch import Mpi


def pytest_addoption(parser):
    parser.addoption("--mpi", required=True, help="openmpi, mpich, intelmpi or mpiabi")
    parser.addoption("--mpirun", required=True, help="its launcher")
    parser.addoption("--build", required=True, help="the folder with what was built for it")
    parser.addoption("--whole", action="store_true", help="the whole of mpi4py's suite and MPICH's as well")


def pytest_report_header(config):
    return f"MPI under test: {config.getoption('build')}"


def mpi_of(config):
    build = pathlib.Path(config.getoption("build")).resolve()
    return Mpi(config.getoption("mpi"), config.getoption("mpirun"), build)


@pytest.fixture(scope="session")
def mpi(pytestconfig):
    return mpi_of(pytestconfig)


@pytest.fixture(scope="session")
def native_run(mpi):
    """native_run(program, processes): a successful native run of a test program."""
    runs = {}

    def run(program, processes):
        if (program, processes) not in runs:
            runs[program, processes] = mpi.native(processes, [mpi.program(program)])
        return runs[program, processes].expect_success()

    return run


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report.json"
