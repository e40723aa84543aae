"""`circulant tune`: what it measures, and the profile that it writes. No test says who is the fastest."""

import re
import tomllib

import pytest

PROCESSES = 3
LARGEST = 1 << 18


@pytest.fixture
def tune(mpi, tmp_path):
    """tune(*arguments): `circulant tune` on the build of this MPI."""

    def run(*arguments, processes=PROCESSES, largest=LARGEST):
        command = [mpi.build / "circulant", "tune", "--build", mpi.build.name, "--largest", largest, *arguments]
        return mpi.run(processes, command, timeout=300)

    return run


def calls_of(profile, operation):
    """By order and irregularity: the calls of an operation in a profile of one network, by their bytes."""
    (network,) = profile["network"]
    kinds = {}
    for call in network["calls"]:
        if call["operation"] == operation:
            kind = call.get("order", "any"), call.get("irregularity", 1)
            kinds.setdefault(kind, {})[call["bytes"]] = call
    return kinds


def expect_borders(calls):
    """Every size has its candidate; both sides of each border were measured, and so were both ends."""
    sizes = sorted(calls)
    assert sizes == [1 << k for k in range(12, LARGEST.bit_length())]
    for one, next_one in zip(sizes, sizes[1:]):
        if calls[one]["run"] != calls[next_one]["run"]:
            assert "seconds" in calls[one] and "seconds" in calls[next_one]
    assert "seconds" in calls[sizes[0]] and "seconds" in calls[sizes[-1]]


def test_all_sizes_have_a_candidate(tune, tmp_path):
    profile, drawing = tmp_path / "new.toml", tmp_path / "times.svg"
    run = tune("--output", profile, "--svg", drawing, "bcast", "allreduce", "reduce_scatter").expect_success()
    assert run.stdout.count(f"Written to {profile}") == 1
    written = tomllib.loads(profile.read_text())
    (network,) = written["network"]
    assert network["processes"] == PROCESSES and network["alpha"] > 0 and network["beta"] > 0
    assert calls_of(written, "bcast").keys() == {("any", 1)}
    assert calls_of(written, "allreduce").keys() == {("any", 1), ("commutative", 1)}
    both = {("any", 1), ("commutative", 1), ("any", 2), ("commutative", 2)}
    assert calls_of(written, "reduce_scatter").keys() == both
    for operation in "bcast", "allreduce", "reduce_scatter":
        for calls in calls_of(written, operation).values():
            expect_borders(calls)
    assert re.search(r"# Measured: native [\d.e-]+ ms, .* ms\.", profile.read_text())
    drawn = drawing.read_text()
    for part in "bcast", "allreduce, floating-point numbers", "chosen", "native", "largest part 2 times the mean":
        assert part in drawn, part


def test_the_profile_is_used(mpi, tune, tmp_path, report):
    """The first call of a program goes by it: without, it would be the cost model's or a trial."""
    profile = tmp_path / "new.toml"
    tune("--output", profile, "--quick", "bcast").expect_success()
    written = tomllib.loads(profile.read_text())
    is_native = calls_of(written, "bcast")["any", 1][1 << 17]["run"] == "native"
    settings = {"PROFILE": profile, "MIN_BYTES": 4096}
    program = [mpi.program("sequence"), f"bcast:{1 << 17}x1"]
    run = mpi.preloaded(PROCESSES, program, report, settings).expect_success()
    assert run.outcomes("bcast") == ({"measured": 1} if is_native else {"circulant": 1})


def test_what_was_known_of_others_stays(tune, tmp_path):
    profile = tmp_path / "kept.toml"
    tune("--output", profile, "--quick", "bcast").expect_success()
    bcast = calls_of(tomllib.loads(profile.read_text()), "bcast")
    tune("--output", profile, "--quick", "allgather").expect_success()
    both = tomllib.loads(profile.read_text())
    assert calls_of(both, "bcast") == bcast and calls_of(both, "allgather")
    tune("--output", profile, "--quick", "bcast", processes=2).expect_success()
    networks = tomllib.loads(profile.read_text())["network"]
    assert {network["processes"] for network in networks} == {2, PROCESSES}


@pytest.mark.any_mpi
def test_another_file_is_not_overwritten(tune, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text('version = 1\nmpi = "another"\n')
    run = tune("--output", other, "--quick", "bcast").expect_success()
    assert 'stays as it is: it was measured with "another"' in run.stderr
    assert other.read_text() == 'version = 1\nmpi = "another"\n'
    (written,) = [file for file in tmp_path.glob("other.*.toml")]
    assert calls_of(tomllib.loads(written.read_text()), "bcast") and str(written) in run.stdout


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("--output", "/nowhere/file.toml"), "--output: /nowhere/file.toml cannot be a file"),
        (("bcost",), "invalid value 'bcost'"),
        (("--smallest", 1 << 20), "the smallest size is larger"),
    ],
)
def test_what_cannot_be_done_is_said(tune, arguments, complaint):
    run = tune(*arguments)
    assert run.status != 0 and complaint in run.stderr, run.describe()


@pytest.mark.any_mpi
def test_one_process_is_too_few(tune, tmp_path):
    run = tune("--output", tmp_path / "none.toml", processes=1)
    assert run.status != 0 and "there is one process only" in run.stderr, run.describe()
