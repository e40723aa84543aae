"""What the tests have in common: the MPI under test, its native runs, made once each, and profiles for it."""

import json
import os
import pathlib

import pytest

from launch import Mpi


def pytest_addoption(parser):
    parser.addoption("--mpi", required=True, help="openmpi, mpich, intelmpi or mpiabi")
    parser.addoption("--mpirun", required=True, help="its launcher")
    parser.addoption("--build", required=True, help="the folder with what was built for it")
    parser.addoption("--all", action="store_true", help="every number of processes, and every variant")
    parser.addoption("--beside", action="store_true", help="another MPI is tested: what depends on the MPI")
    parser.addoption("--setting", action="append", default=[], help="NAME=VALUE: CIRCULANT_NAME where a test sets none")
    parser.addoption("--instrumented", help="a build of the library with AddressSanitizer")
    parser.addoption("--whole", action="store_true", help="the whole of mpi4py's suite and MPICH's as well")


# Numbers of processes without --all. (The simulator has all plans on every number up to 200 and more.)
FEW = {1, 2, 3, 4, 5, 8, 11}
# The same beside another MPI.
FEWEST = {1, 2, 3, 4, 5}


def pytest_configure(config):
    config.addinivalue_line("markers", "any_mpi: does not depend on the MPI")
    config.addinivalue_line("markers", "repeats: what other cases or tests have shown, at length")
    config.addinivalue_line("markers", "beside: another case shows the same on the first MPI")
    if config.getoption("--all"):
        os.environ["EVERY_CASE"] = "1"  # sizes.h


def is_left_out(item, counts, beside):
    """Whether a test waits for --all: plans and settings are the same over every MPI."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    if item.get_closest_marker("repeats") or item.get_closest_marker("any_mpi" if beside else "beside"):
        return True
    return values.get("processes", 1) not in counts


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all"):
        return
    beside = config.getoption("--beside")
    counts = FEWEST if beside else FEW
    left_out = [item for item in items if is_left_out(item, counts, beside)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def pytest_report_header(config):
    return f"MPI under test: {config.getoption('build')}"


def mpi_of(config):
    build = pathlib.Path(config.getoption("build")).resolve()
    settings = dict(setting.split("=", 1) for setting in config.getoption("setting"))
    return Mpi(config.getoption("mpi"), config.getoption("mpirun"), build, settings)


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


@pytest.fixture(scope="session")
def mpi_name(mpi, tmp_path_factory):
    """The MPI library and its version, as profiles name them."""
    report = tmp_path_factory.mktemp("name") / "report.json"
    return mpi.preloaded(1, [mpi.program("first"), "464"], report).expect_success().report["mpi"]


@pytest.fixture
def profile(mpi_name, tmp_path):
    """profile(processes, alpha, beta, calls): writes a profile to a file. It has one network: as many nodes as
    processes, with alpha in microseconds and beta in microseconds per byte; and calls that were measured there."""

    def write(processes, alpha, beta, calls=""):
        file = tmp_path / "profile.toml"
        network = f"processes = {processes}\nnodes = {processes}\nalpha = {alpha}\nbeta = {beta}\n"
        file.write_text(f"version = 1\nmpi = {json.dumps(mpi_name)}\n[[network]]\n{network}{calls}")
        return file

    return write
