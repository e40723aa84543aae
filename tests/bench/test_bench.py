"""scripts/bench, scripts/tables and scripts/plot on a small plan: an interrupted run goes on where it
was, each row is there once, and figures that no port allows are refused. Nothing is asserted of how
long anything took."""

import csv
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import timings  # noqa: E402

SIZES = ["4", "30000", "300000"]
PLAN = ["--mpi", "openmpi", "--hosts", "3", "2x2", "--sizes", *SIZES, "--rate", "20mbit", "--parts", "time"]
PLAN += ["--operations", "bcast", "allgatherv", "allreduce", "--repetitions", "4", "--least", "2", "--budget", "0.1"]
MARK = {"BENCH_TEST": str(os.getpid())}
CASES = [("bcast", "regular"), *(("allgatherv", kind) for kind in timings.INPUTS), ("allreduce", "regular")]


def bench(folder, *arguments, **options):
    command = [SCRIPTS / "bench", *PLAN, "--output", folder, *arguments]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def rows(folder):
    with (folder / "time.csv").open() as file:
        return list(csv.DictReader(file))


def interrupted(folder, least_rows):
    """Interrupts a run, as a terminal does, when there are so many rows; returns its messages, and what
    processes it had."""
    command = [SCRIPTS / "bench", *PLAN, "--output", folder]
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, **MARK},
        # What a shell starts in the background ignores interrupts, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    path = folder / "time.csv"
    while process.poll() is None and not (path.exists() and path.read_text().count("\n") > least_rows):
        time.sleep(0.1)
    running = list(marked_processes())
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=60)[1], running


def marked_processes():
    """Of the interrupted run: all that it starts, on the cluster's hosts too, inherits its environment."""
    mark = "=".join(*MARK.items()).encode()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                yield (process / "cmdline").read_text()
        except OSError:  # ended, or another user's
            pass


def identity(row):
    columns = ("mpi", "p", "hosts", "operation", "input", "size", "variant", "repetition")
    return tuple(row[column] for column in columns)


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run([SCRIPTS / "cluster", "check"]).returncode:
            raise unittest.SkipTest("no cluster can be made here")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.messages, cls.running = interrupted(cls.folder, 30)
        time.sleep(2)
        cls.left = list(marked_processes())
        cls.before = rows(cls.folder)
        cls.resumed = bench(cls.folder, "--resume")
        cls.rows = rows(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_an_interrupt_says_how_to_go_on(self):
        self.assertIn("--resume goes on from here", self.messages)
        self.assertLess(len(self.before), len(self.rows))

    def test_an_interrupt_leaves_nothing_behind(self):
        self.assertGreaterEqual(sum("collectives" in command for command in self.running), 3)
        self.assertEqual(self.left, [])

    def test_a_resumed_run_keeps_what_was_complete(self):
        self.assertEqual(self.resumed.returncode, 0, self.resumed.stderr)
        kept = {identity(row): row["seconds"] for row in self.before}
        again = [row for row in self.rows if kept.get(identity(row), row["seconds"]) != row["seconds"]]
        # Only the configuration in which it was interrupted is measured again.
        self.assertLessEqual(len({(row["p"], row["operation"], row["input"], row["size"]) for row in again}), 1)

    def test_every_configuration_is_there_once(self):
        self.assertEqual(len(self.rows), len({identity(row) for row in self.rows}))
        wanted = {
            (p, operation, kind, size, variant)
            for p in ("3", "4")
            for operation, kind in CASES
            for size in SIZES
            for variant in ["native", "circulant"]
        }
        columns = ("p", "operation", "input", "size", "variant")
        self.assertEqual({tuple(row[column] for column in columns) for row in self.rows}, wanted)

    def test_our_path_ran(self):
        for row in self.rows:
            ran, made = map(int, row["ran_as_circulant"].split("/"))
            self.assertGreater(made, 0)
            self.assertEqual(ran, made if row["variant"] == "circulant" else 0, row)

    def test_there_are_as_many_calls_as_asked_for(self):
        for figures in timings.figures(self.rows).values():
            for (_, variant), curve in figures.items():
                for figure in curve.values():
                    self.assertGreaterEqual(figure.calls, 2 if variant == "circulant" else 1)
                    self.assertLessEqual(figure.calls, 4)

    def test_the_port_of_a_host_with_several_processes(self):
        sizes = {
            (row["operation"], row["input"]): int(row["port_bytes"])
            for row in self.rows
            if row["hosts"] == "2" and row["p"] == "4" and row["size"] == "300000"
        }
        # Shares of 75,000 bytes, times 0, 1, 2, 0: the hosts' ranks have 75,000 and 150,000 together.
        self.assertEqual(sizes["allgatherv", "irregular"], 150_000)
        self.assertEqual(sizes["allgatherv", "regular"], 150_000)
        self.assertEqual(sizes["allgatherv", "degenerate"], 300_000)
        self.assertEqual(sizes["bcast", "regular"], 300_000)
        self.assertEqual(sizes["allreduce", "regular"], 300_000)

    def test_the_table_has_a_row_a_figure(self):
        lines = (self.folder / "time.md").read_text().rstrip().split("\n")
        head = next(i for i, line in enumerate(lines) if line.startswith("| operation | input | p | MPI"))
        figures = timings.figures(self.rows).values()
        count = sum(len(curve) for curves in figures for curve in curves.values())
        self.assertEqual(len(lines) - head - 2, count)

    def test_another_plan_does_not_go_on_in_the_same_file(self):
        other = bench(self.folder, "--resume", "--rate", "30mbit")
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("was measured with rate '20mbit', not '30mbit'", other.stderr)
        self.assertEqual(rows(self.folder), self.rows)

    def test_rows_of_other_sizes_are_not_lost(self):
        other = bench(self.folder, "--resume", "--sizes", "4")
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("has rows of another plan", other.stderr)
        self.assertEqual(rows(self.folder), self.rows)

    def test_forced_and_own_choice_do_not_mix(self):
        other = bench(self.folder, "--resume", "--auto")
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("was measured with settings 'CIRCULANT_FORCE=1', not ''", other.stderr)

    def test_faster_than_the_port_is_refused(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            text = (self.folder / "time.csv").read_text()
            row = next(row for row in self.rows if row["size"] == "300000")
            (folder / "time.csv").write_text(text.replace(f",{row['seconds']},", ",0.000100000,", 1))
            refused = bench(folder, "--resume")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("faster than the port", refused.stderr)

    def test_plots(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        subprocess.run([SCRIPTS / "plot", self.folder, "--size", SIZES[-1]], check=True, stdout=subprocess.DEVNULL)
        names = [f"{operation}-{kind}-{p}" for operation, kind in CASES for p in ("3", "2x2")]
        for name in [*names, "over-limit-3", "over-limit-2x2"]:
            for suffix in ("svg", "png"):
                self.assertGreater((self.folder / f"{name}.{suffix}").stat().st_size, 1000)


class Arguments(unittest.TestCase):
    def test_wrong_ones_are_named(self):
        for arguments, named in [
            (["--hosts", "8y4"], "8y4"),
            (["--hosts", "0"], "invalid layout value"),
            (["--sizes", "2"], "invalid size value"),
            (["--repetitions", "0"], "invalid times value"),
            (["--rate", "fast"], "fast"),
            (["--mpi", "true"], "true is no MPI's compiler wrapper"),
            (["--hosts", "3", "--sizes", "100000000", "--mpi", "openmpi"], "longer than 1 s (--longest)"),
        ]:
            done = subprocess.run([SCRIPTS / "bench", *arguments], text=True, stderr=subprocess.PIPE)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(named, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
