"""Memory that the processes of one node share: what runs there by default, and what becomes of it."""

import re

import pytest

from cases import repeated
from launch import OPERATIONS
from test_programs import SHARED, SHARED_BY_NODES, run_by


@pytest.fixture
def sharing(mpi, report):
    """sharing(settings, ...): a successful preloaded run of the program `sharing`."""

    def run(settings, *arguments, processes=3, **options):
        command = [mpi.program("sharing"), *arguments]
        run = mpi.preloaded(processes, command, report, settings, **options).expect_success()
        assert "failures=0" in run.stdout, run.describe()
        return run

    return run


def memories(run):
    """Of each process: at once, and in the end; and descriptors more."""
    found = re.findall(r"^rank \d+: (\d+) memories at once, (-?\d+) left, (-?\d+) descriptors more$", run.stdout, re.M)
    assert found, run.describe()
    return [[int(number) for number in each] for each in found]


@pytest.mark.parametrize("processes", [2, 3, 5, 8])
def test_by_default_sums_are_made_there(sharing, processes):
    """Of floating-point numbers, from the first call on: without a trial, so that runs give the same bits."""
    run = sharing({}, processes=processes)
    assert run.outcomes("allreduce") == {"circulant": 12}
    assert run_by("shared", run) >= {"allreduce"}
    assert run.stderr == ""


def test_by_the_model_all_operations_run_there(mpi, report):
    calls = [f"{operation}:1000000x3" for operation in OPERATIONS]
    command = [mpi.program("sequence"), *calls, "bcast:8000"]
    run = mpi.preloaded(3, command, report, {"SELECT": "model"}).expect_success()
    assert "failures=0" in run.stdout
    assert run_by("shared", run) == set(OPERATIONS)
    assert run.outcomes("bcast") == {"circulant": 3, "one_node": 1}


def test_without_it_calls_stay_native(sharing):
    run = sharing({"SHARED_MAX": 0, "SELECT": "model"})
    assert run.outcomes("allreduce").keys() <= {"one_node", "cost_model"}
    assert run.stderr == "" and memories(run) == [[0, 0, 0]] * 3


@pytest.mark.parametrize("communicators", [30, *repeated(1000)])
def test_memory_ends_with_its_communicator(sharing, communicators):
    run = sharing({}, communicators, timeout=300)
    assert run.outcomes("allreduce").keys() == {"circulant"}
    for at_once, left, descriptors in memories(run):
        assert (at_once, left) == (3, 0) and descriptors <= 0, run.describe()


@pytest.mark.parametrize("function, rank, error", [
    ("memfd_create", 0, "Function not implemented"),
    ("open", 2, "No such file or directory"),
    ("open", 1, "No such file or directory"),
    ("fallocate", 0, "No space left on device"),
    ("fallocate", 2, "No space left on device"),
])
def test_where_memory_cannot_be_shared(mpi, report, function, rank, error):
    """The MPI library runs the calls, on all processes, and rank 0 says once why."""
    library = [mpi.build / "tests" / "libunshared.so", mpi.library]
    environment = {"UNSHARED": function, "UNSHARED_RANK": str(rank), "CIRCULANT_REPORT": str(report)}
    run = mpi.run(3, [mpi.program("sharing")], library, environment).with_report(report).expect_success()
    assert "failures=0" in run.stdout
    assert run.outcomes("allreduce") == {"shared_memory": 12}, run.describe()
    assert memories(run) == [[0, 0, 0]] * 3
    (line,) = run.stderr.splitlines()
    assert f"cannot share memory (rank {rank}: {error}" in line and "CIRCULANT_SHARED_MAX=0" in line


@pytest.mark.parametrize("function, rank, error", [
    ("memfd_create", 2, "Function not implemented"),
    ("open", 3, "No such file or directory"),
    ("fallocate", 1, "No space left on device"),
])
def test_where_one_node_cannot_share_memory(mpi, report, function, rank, error):
    """On two nodes of two. Processes of both run the calls natively: those of the other have memory, and let it go."""
    library = [mpi.build / "tests" / "libunshared.so", mpi.library]
    environment = {"UNSHARED": function, "UNSHARED_RANK": str(rank), "CIRCULANT_REPORT": str(report)}
    environment |= {"CIRCULANT_NODE_SIZE": "2", "CIRCULANT_BCAST": "shared", "CIRCULANT_ALLREDUCE": "shared"}
    command = [mpi.program("sequence"), "bcast:80000x3", "allreduce:80000x3"]
    run = mpi.run(4, command, library, environment).with_report(report).expect_success()
    assert "failures=0" in run.stdout
    for operation in ("bcast", "allreduce"):
        assert run.outcomes(operation) == {"shared_memory": 3}, run.describe()
    (line,) = run.stderr.splitlines()
    assert f"cannot share memory (rank {rank}: {error}" in line


@pytest.mark.parametrize("size, placement", [(2, "blocked"), (2, "cyclic"), (3, "shuffled"), (4, "blocked")])
def test_memory_of_nodes_ends_with_its_communicator(sharing, size, placement):
    """On nodes, of which one may have a single process."""
    settings = {"FORCE": 1, "NODE_SIZE": size, "PLACEMENT": placement, **SHARED_BY_NODES}
    run = sharing(settings, 30, processes=5, timeout=300)
    assert run_by("shared", run) == {"bcast"}
    for at_once, left, descriptors in memories(run):
        assert (at_once, left) == (3, 0) and descriptors <= 0, run.describe()


def test_nodes_of_different_sizes_decide_alike(mpi, report):
    """Trials of irregular calls, for which the slots of each node grow by themselves: to different sizes."""
    calls = [f"{operation}:{size}x12" for operation in ("allgatherv", "bcast", "allreduce") for size in (20000, 200000)]
    settings = {"SELECT": "tune", "NODE_SIZE": 3, "PLACEMENT": "shuffled"}
    command = [mpi.program("sequence"), *calls]
    run = mpi.preloaded(7, command, report, settings, timeout=120).expect_success()
    assert "failures=0" in run.stdout
    assert run_by("shared", run) == {"allgatherv", "bcast", "allreduce"}, run.describe()


@pytest.mark.parametrize("processes", [2, 4, 5])
def test_calls_of_different_elements_take_turns(sharing, processes):
    run = sharing({}, "units", processes=processes)
    assert run_by("shared", run) == {"bcast", "allreduce"}


def test_elements_of_different_layout_go_native(sharing):
    run = sharing({}, "layouts")
    assert run.outcomes("allreduce") == {"shared_memory": 1}


@pytest.mark.parametrize("processes", [2, 5])
def test_elements_of_different_extents_go_native(sharing, processes):
    """All of one call alike, though their scratch has other numbers of elements."""
    run = sharing({}, "extents", processes=processes, timeout=30)
    assert run.outcomes("reduce_scatter_block").get("shared_memory", 0) >= 4, run.describe()


def test_a_file_that_may_not_be_so_long(mpi, report):
    """The limit on files would end the process by a signal."""
    command = ["bash", "-c", f"ulimit -f 5000; exec {mpi.program('sharing')}"]
    if mpi.native(8, command).status != 0:
        pytest.skip("files of the MPI library's own are longer")
    run = mpi.preloaded(8, command, report).expect_success()
    assert "failures=0" in run.stdout
    assert run.outcomes("allreduce").keys() <= {"circulant", "shared_memory"}


@pytest.mark.any_mpi
def test_the_size_of_slots_changes_no_bit(mpi, report):
    """Of sums of floating-point numbers, nor who adds up which of them."""
    digests = set()
    for most in ("32K", "300K", "32M"):
        command = [mpi.program("learning"), 2, 300000]
        settings = {"FORCE": 1, "SHARED_MAX": most, **SHARED}
        run = mpi.preloaded(4, command, report, settings).expect_success()
        assert "failures=0" in run.stdout
        assert run_by("shared", run) >= {"allreduce", "reduce", "reduce_scatter"}, run.describe()
        digests.add(re.search("digest=([0-9a-f]+)", run.stdout)[1])
    assert len(digests) == 1


def test_elements_that_no_slot_holds_go_native(mpi, report):
    """Those of a reduction; where bytes are moved, any length will do."""
    command = [mpi.program("sequence"), "reduce-vector:400000", "bcast-vector:400000"]
    run = mpi.preloaded(3, command, report, {"FORCE": 1, "SHARED_MAX": "24K", **SHARED}).expect_success()
    assert "failures=0" in run.stdout
    assert run.outcomes("bcast") == {"circulant": 1}
    assert run_by("shared", run) >= {"bcast"}
