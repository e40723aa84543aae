"""`circulant run` and `circulant info`, in the build tree and with folders of builds made up here."""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from cases import repeated
from launch import OPERATIONS
from test_programs import ARGUMENTS, TRAPPED, compare, counted

CALLS = ["bcast:40000x3", "reduce:400"]
OURS = {"bcast": {"circulant": 3}, "reduce": {"circulant": 1}}


@pytest.fixture
def circulant(mpi):
    return mpi.build / "circulant"


TITLES = {
    "openmpi": "Open MPI",
    "mpich": "MPICH",
    "intelmpi": "Intel MPI",
    "mpiabi": "the standard ABI of MPI",
}


# A build that is for another MPI.
OTHER = {"openmpi": "mpich-4.0.0", "mpich": "openmpi-1.0.0", "intelmpi": "openmpi-1.0.0", "mpiabi": "mpich-4.0.0"}


@pytest.fixture
def builds(mpi, tmp_path):
    """A folder with the build for this MPI, and what looks like those for two others."""
    folder = tmp_path / "builds"
    for name in (mpi.build.name, OTHER[mpi.family], "smpi-1.0"):
        (folder / name).mkdir(parents=True)
        (folder / name / "libcirculant.so").write_bytes(b"not to be loaded")
    ours = folder / mpi.build.name / "libcirculant.so"
    ours.unlink()
    ours.symlink_to(mpi.library)
    return folder


@pytest.fixture
def named(mpi):
    """What has to be said where nothing but the launcher tells: MPICH's starts programs that call MPI by
    the standard ABI, too, and does not know."""
    return ["--build", mpi.build.name] if mpi.family == "mpiabi" else []


@pytest.fixture
def launched(mpi, circulant, report, builds):
    """launched(command, options): circulant run with a report, on three processes."""

    def run(command, *options):
        before = [circulant, "run", "--set", "FORCE=1", "--report", report]
        run = mpi.run(3, [*before, "--libraries", builds, *options, *command])
        return run.with_report(report)

    return run


def test_program(mpi, launched):
    """The build is found by the MPI that the program is linked with."""
    run = launched([mpi.program("sequence"), *CALLS]).expect_success()
    assert run.all_outcomes() == OURS
    assert run.stderr == "", run.describe()


def test_script_and_interpreter(mpi, launched, named, tmp_path):
    """A script is not linked with an MPI; the launcher's environment tells."""
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\nexec {mpi.program('sequence')} \"$@\"\n")
    script.chmod(0o755)
    for command in ([script, *CALLS], ["sh", script, *CALLS]):
        run = launched(command, *named).expect_success()
        assert run.all_outcomes() == OURS
        assert run.stderr == "", run.describe()


def test_python(mpi, launched, named):
    """mpi4py loads the MPI long after the program has started, out of the global scope."""
    code = "from mpi4py import MPI; d = bytearray(40000); MPI.COMM_WORLD.Bcast(d)"
    run = launched([mpi.build / "venv/bin/python", "-c", code], *named).expect_success()
    assert run.outcomes("bcast") == {"circulant": 1}


def test_nothing_fits(mpi, circulant, tmp_path):
    """One line for the job, and the program runs natively; with --require it does not run."""
    program = [mpi.program("sequence"), *CALLS]
    (tmp_path / "none").mkdir()
    nothing = ["--libraries", tmp_path / "none"]
    run = mpi.run(3, [circulant, "run", *nothing, *program]).expect_success()
    assert len(run.stderr.splitlines()) == 1, run.describe()
    assert re.search(rf"sequence uses {TITLES[mpi.family]}[ 0-9.]*, for which there is no build in", run.stderr)
    run = mpi.run(3, [circulant, "run", "--require", *nothing, *program])
    assert run.status not in (0, None), run.describe()
    assert "calls" not in run.stdout
    assert "no build" in run.stderr


def test_nothing_fits_but_on_rank_0(mpi, circulant, tmp_path):
    """Rank 0 is another program, which has nothing to say."""
    (tmp_path / "none").mkdir()
    strict = [circulant, "run", "--require", "--libraries", tmp_path / "none"]
    program = [mpi.program("sequence"), *CALLS]
    run = mpi.run(1, [*program, ":", "-n", "1", *strict, *program], timeout=30)
    assert run.status not in (0, None), run.describe()
    assert "calls" not in run.stdout
    assert re.search("^circulant: rank 1: .* for which there is no build in", run.stderr, re.MULTILINE), run.describe()


@pytest.mark.parametrize("folder", ["a b", "a:b"])
def test_path_that_cannot_be_preloaded(mpi, circulant, builds, folder):
    """LD_PRELOAD would take it for two. The linker's complaints would not stop a program with --require."""
    libraries = builds.rename(builds.parent / folder)
    program = [mpi.program("sequence"), *CALLS]
    run = mpi.run(3, [circulant, "run", "--libraries", libraries, *program]).expect_success()
    assert len(run.stderr.splitlines()) == 1, run.describe()
    assert "LD_PRELOAD" in run.stderr and "natively" in run.stderr
    run = mpi.run(3, [circulant, "run", "--require", "--libraries", libraries, *program])
    assert run.status not in (0, None), run.describe()
    assert "calls" not in run.stdout


def test_another_version_fits(mpi, launched, builds):
    """A build is for all versions that have its ABI; an installed one has no version in its name."""
    command = [mpi.program("sequence"), *CALLS]
    abi = mpi.family.replace("intelmpi", "mpich")
    for name in (f"{mpi.family}-1.2.0", abi):
        next(builds.glob(f"{mpi.family}*")).rename(builds / name)
        assert launched(command).expect_success().all_outcomes() == OURS


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("options", [["--libraries", "/missing"], ["--libraries", "/missing", "--require"]])
def test_nothing_on_one_node(mpi, circulant, rank, options):
    """The others wait for it in MPI_Init: the job ends."""
    program = [mpi.program("sequence"), *CALLS]
    of_rank = [[circulant, "run", *options, *program] if one == rank else program for one in range(2)]
    run = mpi.run(1, [*of_rank[0], ":", "-n", "1", *of_rank[1]], timeout=30)
    assert run.status not in (0, None), run.describe()
    assert "calls" not in run.stdout
    assert len(re.findall("^circulant: .*/missing", run.stderr, re.MULTILINE)) == 1, run.describe()


def test_no_program_on_one_node(mpi, circulant, tmp_path):
    """As where the launcher does not find it."""
    program = [mpi.program("sequence"), *CALLS]
    run = mpi.run(1, [*program, ":", "-n", "1", circulant, "run", tmp_path / "missing"], timeout=30)
    assert run.status not in (0, None), run.describe()
    assert "missing: " in run.stderr, run.describe()


@pytest.mark.parametrize("options", [[], ["--require"]])
def test_a_build_that_was_cut(mpi, circulant, builds, options):
    """As by a full disk. Preloaded, it would end the process without a word."""
    for library in builds.glob("*/libcirculant.so"):
        part = library.read_bytes()[:300_000]
        library.unlink()
        library.write_bytes(part)
    run = mpi.run(2, [circulant, "run", "--libraries", builds, *options, mpi.program("sequence"), *CALLS], timeout=30)
    assert run.status not in (0, None), run.describe()
    assert "calls" not in run.stdout
    assert "libcirculant.so cannot be preloaded: it was cut: it is shorter than its header says" in run.stderr, run.describe()


def test_build_by_name(mpi, launched, circulant, tmp_path):
    """One that is not there may be missing on this node only, so the program does not run."""
    run = launched([mpi.program("sequence"), *CALLS], "--build", mpi.build.name).expect_success()
    assert run.all_outcomes() == OURS
    for options in (["--build", "openmpi-9.9.9"], ["--libraries", tmp_path / "missing"]):
        run = mpi.run(2, [circulant, "run", *options, mpi.program("sequence"), *CALLS])
        assert run.status not in (0, None), run.describe()
        assert len(run.stderr.splitlines()) >= 2, "each process speaks for its node"
        assert "calls" not in run.stdout


def run(*command, **options):
    environment = {**os.environ, **options.pop("environment", {})}
    return subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, timeout=60, check=False, **options
    )


def test_is_transparent(circulant, tmp_path):
    """Arguments, standard streams and exit status are the program's."""
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(37)"
    for arguments in (["--set", "-h", "", "a b", "--", "--report=x"], ["-h"], ["--", "x"], ["--report", "x"]):
        script = tmp_path / "script.py"
        script.write_text(f"#!{sys.executable}\n{code}\n")
        script.chmod(0o755)
        for command in ([sys.executable, "-c", code, *arguments], [script, *arguments]):
            plain = run(*command, input=b"in")
            under = run(circulant, "run", *command, input=b"in")
            assert (under.returncode, under.stdout) == (37, plain.stdout)
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert run(circulant, "run", sys.executable, "-c", code).returncode == -signal.SIGTERM


def test_program_by_a_link(mpi, circulant, builds, tmp_path):
    """What a program looks for beside itself is beside its file, not beside a link to that."""
    link = tmp_path / "link"
    link.symlink_to(mpi.program("device"))
    done = run(circulant, "run", "--require", "--libraries", builds, "--report", "stderr", link, "host")
    assert done.returncode == 0, done.stderr
    assert b"report of rank 0 of 1" in done.stderr


def test_what_cannot_be_run(circulant, tmp_path):
    missing = run(circulant, "run", "--libraries", "/", tmp_path / "missing")
    assert missing.returncode == 127
    assert b"missing" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1
    (tmp_path / "text").write_text("no program")
    assert run(circulant, "run", "--libraries", "/", tmp_path / "text").returncode == 126


@pytest.mark.parametrize(
    "setting, accepted",
    [
        ("FORCE", "no ="),
        ("FROCE=1", "CIRCULANT_FORCE"),
        ("CIRCULANT_BLOCKS=none", "from 1 to"),
        ("FORCE=", "no value"),
    ],
)
def test_wrong_setting(circulant, setting, accepted):
    done = run(circulant, "run", "--set", setting, "true")
    assert done.returncode == 2
    said = done.stderr.decode()
    assert accepted in said
    # Nothing is used instead: the program does not run.
    assert "; using" not in said and "; ignoring" not in said


def test_preloads_before_others(circulant, mpi, tmp_path):
    """What was preloaded stays, behind circulant."""
    others = {"LD_PRELOAD": str(mpi.build / "tests/libyield.so")}
    only = tmp_path / mpi.build.name
    only.mkdir()
    (only / "libcirculant.so").symlink_to(mpi.library)
    shown = run(circulant, "run", "--libraries", tmp_path, "env", environment=others)
    preload = re.search(r"^LD_PRELOAD=(.*)$", shown.stdout.decode(), re.MULTILINE)
    assert preload.group(1).split(":") == [str(only / "libcirculant.so"), others["LD_PRELOAD"]]


def test_folder_by_a_relative_path(circulant, mpi, tmp_path):
    """Which is that of the command, not of a folder that a script goes to."""
    (tmp_path / mpi.build.name).mkdir()
    library = tmp_path / mpi.build.name / "libcirculant.so"
    library.symlink_to(mpi.library)
    shell = ["sh", "-c", 'cd / && exec sh -c "echo $LD_PRELOAD"']
    shown = run(circulant, "run", "--libraries", ".", *shell, cwd=tmp_path)
    assert (shown.stdout.decode().strip(), shown.stderr) == (str(library), b"")


def test_info(circulant, mpi):
    shown = run(circulant, "info", environment={"CIRCULANT_BLOCKS": "7", "CIRCULANT_BLOKS": "1"})
    text = shown.stdout.decode()
    assert shown.returncode == 0
    title = TITLES[mpi.family]
    version = mpi.build.name.partition("-")[2]
    assert re.search(rf"{title} {version} +{mpi.build}/libcirculant.so$", text, re.MULTILINE), text
    assert re.search(r"CIRCULANT_BLOCKS=7 +environment$", text, re.MULTILINE)
    assert re.search(r"CIRCULANT_WINDOW=1 +default$", text, re.MULTILINE)
    assert text.index("CIRCULANT_BLOCKS=7") < text.index("Builds in") < text.index("CIRCULANT_WINDOW=1")
    assert b"CIRCULANT_BLOCKS" in shown.stderr


def abi_of(name):
    return name.partition("-")[0].replace("intelmpi", "mpich")


@pytest.fixture
def installed(mpi, tmp_path):
    """A library folder with the builds for this MPI and for others, by their ABIs, as they are installed: copies,
    for a build looks for the others where its own file is."""
    library = tmp_path / "lib"
    built = [mpi.library, *mpi.build.parent.glob("*/libcirculant.so")]
    for path in built:
        abi = abi_of(path.parent.name)
        if abi in ("openmpi", "mpich", "mpiabi") and not (library / "circulant" / abi).exists():
            (library / "circulant" / abi).mkdir(parents=True)
            shutil.copy(path, library / "circulant" / abi)
    return library


@pytest.fixture(params=["openmpi", "mpich", "mpiabi"])
def other(mpi, installed, request):
    """A build in that folder that is for another MPI, if there is one."""
    path = installed / "circulant" / request.param / "libcirculant.so"
    if request.param == abi_of(mpi.build.name) or not path.exists():
        pytest.skip("there is no such build")
    return path


@pytest.mark.parametrize(
    "found, missing",
    [
        (None, "there is no build for it in {folder}"),
        (b"no library", "the build for it cannot be loaded: {file}: it is no shared library"),
        ("a part", "the build for it cannot be loaded: {file}: it was cut: it is shorter than its header says"),
    ],
)
def test_of_another_mpi(mpi, installed, other, report, found, missing):
    """A build for another MPI, alone or with a broken one for this, says so once, and the program runs as without
    it."""
    command = [mpi.program("sequence"), *CALLS]
    native = mpi.native(3, command).expect_success()
    assert "failures=0" in native.stdout
    own = installed / "circulant" / abi_of(mpi.build.name) / "libcirculant.so"
    whole = own.read_bytes()
    own.unlink()
    if found:
        own.write_bytes(whole[:300_000] if found == "a part" else found)
    missing = missing.format(folder=re.escape(str(own.parent)), file=re.escape(str(own)))
    done = mpi.run(3, command, other, {"CIRCULANT_FORCE": "1", "CIRCULANT_REPORT": str(report)})
    done.expect_success()
    assert done.stdout == native.stdout
    both = f"built for {TITLES[other.parent.name]}, but this process uses {TITLES[abi_of(mpi.build.name)]}"
    missing = f"and {missing}"
    assert re.fullmatch(
        rf"circulant: {both} \([^\n]+\), {missing}: all calls go to the MPI library\n", done.stderr
    ), done.describe()
    assert not report.exists()


def test_required_of_another_mpi(mpi, installed, other):
    """Without a build for this MPI, a job that has to run under circulant does not run."""
    (installed / "circulant" / abi_of(mpi.build.name) / "libcirculant.so").unlink()
    run = mpi.run(3, [mpi.program("sequence"), *CALLS], other, {"CIRCULANT_REQUIRE": "1"}, timeout=30)
    assert run.status == 125, run.describe()
    assert "calls" not in run.stdout
    lines = re.findall("^circulant: built for .* there is no build for it in .*, and CIRCULANT_REQUIRE=1$", run.stderr, re.MULTILINE)
    assert len(lines) == 1, run.describe()


def test_a_copy_elsewhere(mpi, installed, other, tmp_path):
    """The folder above that of a copy is not looked at: another user may write there."""
    copy = tmp_path / "own" / "libcirculant.so"
    copy.parent.mkdir()
    shutil.copy(other, copy)
    shutil.copytree(installed / "circulant" / abi_of(mpi.build.name), tmp_path / abi_of(mpi.build.name))
    run = mpi.run(3, [mpi.program("sequence"), *CALLS], copy).expect_success()
    folder = copy.parent / "circulant" / abi_of(mpi.build.name)
    assert f"there is no build for it in {folder}: all calls go to the MPI library" in run.stderr, run.describe()


def test_one_file_that_is_a_copy(mpi, installed, other, report):
    """As in a wheel, which holds no links: the folder with the builds lies beside it."""
    copy = installed / "libcirculant.so"
    shutil.copy(other, copy)
    run = mpi.preloaded(3, [mpi.program("sequence"), *CALLS], report, {"FORCE": 1}, library=copy)
    assert run.expect_success().all_outcomes() == OURS
    assert run.stderr == "", run.describe()


@pytest.mark.parametrize("program", ["bcast", "communicators", "attributes", *repeated(*OPERATIONS[1:])])
def test_one_file_for_every_mpi(mpi, native_run, other, report, program):
    """A build that is preloaded under another MPI opens the one for that, and passes all calls to it."""
    command = [mpi.program(program), *ARGUMENTS.get(program, [])]
    options = {"library": other, "trapped": program in TRAPPED}
    run = mpi.preloaded(3, command, report, {"FORCE": 1}, **options)
    compare(run, native_run(program, 3))
    assert run.all_outcomes() == counted(run.stdout)


def test_one_file_by_a_link(mpi, installed, other, report):
    """As installed: a link to one of the builds."""
    link = installed / "libcirculant.so"
    link.symlink_to(other)
    run = mpi.preloaded(3, [mpi.program("sequence"), *CALLS], report, {"FORCE": 1}, library=link)
    assert run.expect_success().all_outcomes() == OURS
    assert run.stderr == "", run.describe()


def test_one_file_by_a_relative_path(mpi, installed, other, report):
    """Which means another file once the program has changed its folder."""
    code = "import os; os.chdir('/'); from mpi4py import MPI; MPI.COMM_WORLD.Bcast(bytearray(40000))"
    command = [mpi.build / "venv/bin/python", "-c", code]
    relative = other.relative_to(installed)
    run = mpi.preloaded(3, command, report, {"FORCE": 1}, library=relative, folder=installed)
    assert run.expect_success().outcomes("bcast") == {"circulant": 1}
    assert run.stderr == "", run.describe()


def test_one_file_in_python(mpi, other, report):
    """Which loads its MPI later, out of the global scope."""
    code = "from mpi4py import MPI; d = bytearray(40000); MPI.COMM_WORLD.Bcast(d)"
    run = mpi.preloaded(3, [mpi.build / "venv/bin/python", "-c", code], report, {"FORCE": 1}, library=other)
    assert run.expect_success().outcomes("bcast") == {"circulant": 1}
    assert run.stderr == "", run.describe()


def test_one_file_without_mpi(mpi, other):
    """In a process without MPI it does nothing."""
    done = run("env", "ls", "/", environment={"LD_PRELOAD": str(other), "CIRCULANT_BLOCKS": "none"})
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("processes", [2, 3])
def test_functions_of_another_build(mpi, other, report, processes):
    """circulant's own functions, which a program finds in the build that is preloaded."""
    run = mpi.preloaded(processes, [mpi.program("successive")], report, library=other, timeout=300).expect_success()
    assert "failures=0" in run.stdout and run.stderr == "", run.describe()
    assert "circulant" in run.outcomes("successive_bcast")


@pytest.mark.parametrize("processes", [2, 3])
def test_functions_of_another_build_called_first(mpi, other, processes):
    """Before any function of MPI that is exported: the build for this MPI is found for them."""
    if mpi.build.name.startswith("openmpi-4"):
        pytest.skip("Open MPI 4.1 has no sessions")
    run = mpi.run(processes, [mpi.program("sessions")], other).expect_success()
    assert "\nowner 0\n" in run.stdout and run.stderr == "", run.describe()


def test_functions_without_a_build(mpi, installed, other):
    """Nothing can stand for circulant's own functions, so the program ends, and a line says what is missing."""
    own = installed / "circulant" / abi_of(mpi.build.name) / "libcirculant.so"
    own.unlink()
    done = mpi.run(2, [mpi.program("successive")], other)
    assert done.status not in (0, None), done.describe()
    missing = rf"circulant: circulant_successive_\w+ cannot be run: .* there is no build for it in {re.escape(str(own.parent))}"
    assert re.search(f"^{missing}$", done.stderr, re.MULTILINE), done.describe()


def test_large_counts_without_a_build(mpi, installed, other):
    """Nor can it for functions that the MPI has not, which a program finds in circulant."""
    if mpi.family != "openmpi":
        pytest.skip("this MPI has large-count functions")
    (installed / "circulant" / abi_of(mpi.build.name) / "libcirculant.so").unlink()
    done = mpi.run(2, [mpi.program("large_c")], other)
    assert done.status not in (0, None), done.describe()
    assert re.search("^circulant: the MPI library has no PMPI_\\w+_c$", done.stderr, re.MULTILINE), done.describe()
