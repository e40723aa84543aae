"""Jobs in which not every rank has the library, or has the same: a file missing on one node, another
version on another. The program gets what it gets without the library, and one line says why."""

import re
import shlex

import pytest

from cases import repeated

FIRST = ["4", "464", "8", "65536", "65536i", "464i", "dup", "idup", "barrier", "allreduce", "allgather", "medley"]


def on_rank(rank, preload, command):
    """The command, with another LD_PRELOAD on one rank."""
    test = 'test "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = ' + str(rank)
    return ["sh", "-c", f"{test} && export LD_PRELOAD={shlex.quote(preload)}; exec {shlex.join(map(str, command))}"]


def without(mpi, rank, command):
    return on_rank(rank, str(mpi.build / "tests" / "libyield.so"), command)


def line_of(run):
    """The one line that says that not all have the library."""
    lines = re.findall("^circulant: .*so all calls of the job.*$", run.stderr, re.MULTILINE)
    assert len(lines) == 1, run.describe()
    return lines[0]


@pytest.mark.parametrize("force", [1, *repeated(0)])
@pytest.mark.parametrize("call", FIRST)
def test_a_rank_without(mpi, report, call, force):
    """Whatever the program calls first, it goes on as without the library, and one line says which rank
    is without it."""
    absent = 2 if call in ("dup", "medley", "464") else 1
    command = [mpi.program("first"), call]
    native = mpi.native(3, command).expect_success()
    run = mpi.preloaded(3, without(mpi, absent, command), report, {"FORCE": force}, timeout=60).expect_success()
    assert run.stdout == native.stdout
    assert f"rank {absent} runs without circulant" in line_of(run)
    for operation, of in run.all_outcomes().items():
        assert set(of) <= {"not_everywhere", "one_process"}, operation
    assert run.outcomes("bcast")["not_everywhere"] > 0


@pytest.mark.parametrize("processes, absent", [(2, 0), (2, 1), (5, 0), (5, 4)])
def test_which_rank_is_without(mpi, report, processes, absent):
    command = [mpi.program("first"), "medley"]
    run = mpi.preloaded(processes, without(mpi, absent, command), report, {"FORCE": 1}, timeout=60)
    assert f"rank {absent} runs without circulant" in line_of(run.expect_success())


def test_a_rank_without_on_another_host(mpi, report):
    """What Hydra's processes on the launcher's own host have besides does not matter."""
    command = ["env", "-u", "HYDI_CONTROL_FD", "-u", "HYDRA_BSTRAP_PGID", *without(mpi, 2, [mpi.program("first"), "464"])]
    run = mpi.preloaded(3, command, report, {"FORCE": 1}, timeout=60).expect_success()
    assert "rank 2 runs without circulant" in line_of(run)


@pytest.mark.parametrize("call", FIRST)
def test_all_ranks_with(mpi, report, call):
    """The same program where all have it: the library runs its calls."""
    run = mpi.preloaded(3, [mpi.program("first"), call], report, {"FORCE": 1}).expect_success()
    assert not re.search("^circulant:", run.stderr, re.MULTILINE), run.describe()
    for operation, of in run.all_outcomes().items():
        assert set(of) <= {"circulant", "one_process"}, operation
        assert of["circulant"] > 0, operation


@pytest.mark.parametrize("other", [1, 3])
def test_another_version(mpi, report, other):
    """A rank with another version is named, and what it has. (Rank 0 says so, in every version.)"""
    command = [mpi.program("first"), "464"]
    preload = " ".join(str(mpi.build / "tests" / name) for name in ("libyield.so", "libimpostor.so"))
    run = mpi.preloaded(4, on_rank(other, preload, command), report, {"FORCE": 1}, timeout=60).expect_success()
    assert f"rank {other} has " in (line := line_of(run)) and "0.0.9-abc" in line
    assert run.outcomes("bcast")["not_everywhere"] > 0


def with_past(mpi, how, libraries, ranks, command):
    """The command, on these ranks with a tool whose MPI_Init does not come to circulant as usual."""
    preload = " ".join(map(str, libraries))
    test = f'case " {ranks} " in *" ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} "*)'
    words = f"{test} export PAST={how} LD_PRELOAD={shlex.quote(preload)};; esac; exec {shlex.join(map(str, command))}"
    return ["sh", "-c", words]


@pytest.mark.parametrize("ranks", ["0", "2", "0 1 2 3"])
def test_a_tool_that_calls_the_library(mpi, report, ranks):
    """A tool behind circulant calls the MPI library's own MPI_Init, past circulant: no harm."""
    behind = [mpi.library, mpi.program("libpast.so")]
    command = with_past(mpi, "library", behind, ranks, [mpi.program("first"), "464"])
    run = mpi.preloaded(4, command, report, {"FORCE": 1}, timeout=60).expect_success()
    assert not re.search("^circulant:", run.stderr, re.MULTILINE), run.describe()
    assert run.outcomes("bcast")["circulant"] > 0


@pytest.mark.parametrize("absent", ["2", "none"])
def test_a_tool_that_calls_in_init(mpi, report, absent):
    """A tool makes a collective call in its own MPI_Init. Whether all have circulant is known before that."""
    tool = mpi.program("libpast.so")
    command = [mpi.program("first"), "464"]
    command = with_past(mpi, "calls", [mpi.program("libyield.so"), tool], absent, command)
    command = with_past(mpi, "calls", [mpi.library, tool], "0 1 2 3", command)
    run = mpi.preloaded(4, command, report, {"FORCE": 1}, timeout=20).expect_success()
    if absent == "none":
        assert run.outcomes("bcast")["circulant"] > 0
    else:
        assert f"rank {absent} runs without circulant" in line_of(run)
        assert set(run.outcomes("bcast")) <= {"not_everywhere", "one_process"}


def as_natively(mpi, report, how, ranks):
    """The run with the tool before circulant, on these ranks. It ends as without the library."""
    before = [mpi.program("libpast.so"), mpi.library]
    command = [mpi.program("first"), "464"]
    native = mpi.native(4, command).expect_success()
    command = with_past(mpi, how, before, ranks, command)
    run = mpi.preloaded(4, command, report, {"FORCE": 1}, timeout=60).expect_success()
    assert run.stdout == native.stdout
    return run


@pytest.mark.parametrize("ranks", ["0", "2"])
def test_a_tool_before_that_calls_the_library(mpi, report, ranks):
    """Before circulant it keeps MPI_Init from it. The job goes on as without the library."""
    run = as_natively(mpi, report, "library", ranks)
    assert f"rank {ranks} runs without circulant" in run.stderr, run.describe()
    assert set(run.outcomes("bcast")) <= {"not_everywhere", "one_process"}


@pytest.mark.parametrize("ranks", ["0", "2", "0 1 2 3"])
def test_a_session_before(mpi, report, ranks):
    """With Open MPI 5 a process that begins with a session is counted as one without the library."""
    if mpi.build.name.startswith("openmpi-4"):
        pytest.skip("Open MPI 4.1 has no sessions")
    if mpi.build.name.startswith("intelmpi"):
        pytest.skip("Intel MPI refuses MPI_Init after a session natively")
    if mpi.family != "openmpi" and ranks != "0 1 2 3":
        pytest.skip("MPICH fails natively where some processes begin with a session")
    run = as_natively(mpi, report, "session", ranks)
    if mpi.family == "openmpi":
        assert set(run.outcomes("bcast")) <= {"not_everywhere", "one_process"}
        assert "so all calls of the job go to the MPI library" in run.stderr, run.describe()


@pytest.mark.parametrize("ranks", [[0], [1], [0, 1, 2]])
def test_required(mpi, report, ranks):
    """A job with a rank without the library ends, if any of the others requires that there is none."""
    test = " || ".join(f'test "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = {rank}' for rank in ranks)
    inner = ["sh", "-c", f"{{ {test}; }} && export CIRCULANT_REQUIRE=1; exec {mpi.program('first')} 464"]
    run = mpi.preloaded(4, inner, report, {"FORCE": 1}, timeout=25).expect_success()
    assert run.outcomes("bcast")["circulant"] > 0
    run = mpi.run(4, without(mpi, 3, inner), mpi.library, {"CIRCULANT_FORCE": "1"}, timeout=25)
    assert run.status == 125, run.describe()
    assert "checks=" not in run.stdout, run.describe()
    lines = re.findall("^circulant: .*$", run.stderr, re.MULTILINE)
    assert "rank 3 runs without circulant" in lines[0], run.describe()
    # Who says that may not be one of those that require it.
    assert "CIRCULANT_REQUIRE=1, so the job ends" in lines[-1] and len(lines) <= 2, run.describe()


def test_nothing_runs_that_is_required_otherwise(mpi):
    """The program does not come out of MPI_Init, also where MPI_Abort returns (MPICH 5)."""
    program = [mpi.build / "venv/bin/python", "-c", "from mpi4py import MPI; print('goes on', flush=True)"]
    for _ in range(3):
        command = without(mpi, 1, ["env", "CIRCULANT_REQUIRE=1", *program])
        run = mpi.run(4, command, mpi.library, timeout=25)
        assert run.status == 125, run.describe()
        assert run.stdout.count("goes on") <= 1, run.describe()


WITHOUT_A_STORE = ["env", "-u", "MPI_LOCALNRANKS"]


def test_required_without_a_store(mpi):
    """Under a launcher whose store is not known, a job ends that requires all ranks to have the library."""
    if mpi.family == "openmpi":
        pytest.skip("Open MPI does not start without PMIx")
    command = [*WITHOUT_A_STORE, mpi.program("first"), "464"]
    run = mpi.run(3, command, mpi.library, {"CIRCULANT_REQUIRE": "1"}, timeout=30)
    assert run.status == 125, run.describe()
    assert "checks=" not in run.stdout, run.describe()
    assert "but this launcher does not tell which ranks have circulant" in run.stderr
    mpi.run(1, command, mpi.library, {"CIRCULANT_REQUIRE": "1"}).expect_success()


def test_without_a_store(mpi, report):
    """Under a launcher whose store is not known the settings are agreed on by messages."""
    if mpi.family == "openmpi":
        pytest.skip("Open MPI does not start without PMIx")
    run = mpi.preloaded(5, [*WITHOUT_A_STORE, mpi.program("first"), "464"], report, {"FORCE": 1}).expect_success()
    assert run.outcomes("bcast")["circulant"] > 0
    assert set(run.outcomes("allreduce")) <= {"circulant", "one_process"}
