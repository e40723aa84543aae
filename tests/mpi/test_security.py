"""The environment and the file system are another's: what may be believed, and what may be written."""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

from launch import ENVIRONMENT

pytestmark = pytest.mark.any_mpi

CALLS = ["bcast:10000x3"]
NOBODY = 65534


def line_about(run, name):
    lines = [line for line in run.stderr.splitlines() if name in line]
    assert len(lines) == 1, run.describe()
    return lines[0]


@pytest.fixture
def open_folder():
    """A folder that other users reach."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_settings_of_a_caller_with_fewer_rights_are_ignored(mpi, open_folder):
    """A set-user-ID program that is linked with the library, started by somebody else, who would have it
    write a file with its rights. By its own user it does write it."""
    program, report = open_folder / "program", open_folder / "report.json"
    shutil.copy(mpi.program("linked-static"), program)
    program.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CIRCULANT_")}
    environment = {
        **inherited,
        **ENVIRONMENT[mpi.family],
        "HOME": str(open_folder),
        "CIRCULANT_REPORT": str(report),
        "CIRCULANT_F": "many",
    }
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, *CALLS]

    def run():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "failures=0" in done.stdout, done
        return done.stderr

    said = run()
    assert "CIRCULANT_F=" in said
    assert report.exists()
    report.unlink()
    program.chmod(0o4755)
    said = run()
    assert "circulant: this process has more rights than who started it, who set CIRCULANT_" in said
    assert "CIRCULANT_REPORT" in said and "using the defaults" in said and "many" not in said
    assert not report.exists()


def test_a_report_does_not_follow_a_link(mpi, tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "link.json"
    precious.write_text("precious")
    link.symlink_to(precious)
    run = mpi.preloaded(2, [mpi.program("sequence"), *CALLS], tmp_path / "precious.json", {"FORCE": 1, "REPORT": link})
    run.expect_success()
    assert "symbolic link" in line_about(run, "CIRCULANT_REPORT")
    assert precious.read_text() == "precious"


def test_a_profile_replaces_a_link(mpi, report, tmp_path):
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "link.toml"
    link.symlink_to(elsewhere)
    settings = {"PROFILE_SAVE": link, "SELECT": "tune", "NODE_SIZE": 1}
    run = mpi.preloaded(2, [mpi.program("sequence"), "bcast:1000000x8"], report, settings).expect_success()
    assert run.report["learned"]
    assert not elsewhere.exists() and not link.is_symlink()
    assert "[[network]]" in link.read_text(), run.describe()


def test_files_have_the_rights_that_the_mask_leaves(mpi, tmp_path):
    files = [tmp_path / "report.json", tmp_path / "profile.toml"]
    settings = {"PROFILE_SAVE": files[1], "SELECT": "tune", "NODE_SIZE": 1}
    before = os.umask(0o027)
    try:
        run = mpi.preloaded(2, [mpi.program("sequence"), "bcast:1000000x8"], files[0], settings).expect_success()
    finally:
        os.umask(before)
    assert run.report["learned"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o640, 0o640]


def test_values_are_neither_formats_nor_commands(mpi, tmp_path):
    odd = "%n%s%99999d$(touch taken)`touch taken`;touch taken"
    report = tmp_path / f"{odd}.json"
    settings = {"FORCE": 1, "BCAST": odd, "PROFILE": tmp_path / odd}
    run = mpi.preloaded(2, [mpi.program("sequence"), *CALLS], report, settings, folder=tmp_path).expect_success()
    assert run.outcomes("bcast") == {"circulant": 3}
    assert odd in line_about(run, "CIRCULANT_BCAST")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [report.name]


def in_shell(mpi, words, settings, folder):
    """A run of one process in a shell, as P."""
    environment = {**mpi.variables("/dev/stdout", settings), "P": f"{mpi.program('sequence')} bcast:1000000x8"}
    return mpi.run(1, ["bash", "-c", words], mpi.library, environment, folder=folder)


def test_a_report_on_standard_output_follows_the_program(mpi, tmp_path):
    """Where that is a file, what is there stays."""
    in_shell(mpi, "(echo before; $P; echo after) > all", {}, tmp_path).expect_success()
    lines = (tmp_path / "all").read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    assert any("failures=0" in line for line in lines)
    assert lines.count("{") == 1 and '"processes": 1,' in map(str.strip, lines)


def test_nobody_who_reads_is_no_harm(mpi, tmp_path):
    """Neither a line nor a report ends a program that writes nothing itself."""
    settings = {"NO_SUCH_VARIABLE": 1, "REPORT": "stderr"}
    for reader in ("cat > said", "true"):
        words = f"{{ sleep 0.3; $P > out; echo $? > status; }} 2> >(exec {reader})"
        in_shell(mpi, words, settings, tmp_path)
        assert (tmp_path / "status").read_text() == "0\n"
    said = (tmp_path / "said").read_text()
    assert "CIRCULANT_NO_SUCH_VARIABLE" in said and "report of rank 0 of 1" in said


LIMITED = """
import resource
from mpi4py import MPI
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
MPI.COMM_WORLD.bcast(bytes(100000))
"""


def test_a_report_that_becomes_too_long_is_no_harm(mpi, tmp_path):
    command = [mpi.build / "venv/bin/python", "-c", LIMITED]
    mpi.native(2, command).expect_success()
    environment = mpi.variables(tmp_path / "report.json", {})
    run = mpi.run(2, command, mpi.library, environment).expect_success()
    assert "CIRCULANT_REPORT" in line_about(run, "cannot be written"), run.describe()
