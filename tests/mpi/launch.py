"""Runs MPI programs: natively or under the library, with a time-out that leaves nothing behind."""

import dataclasses
import functools
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import uuid
import warnings

# What the library takes over, by the names of its report.
OPERATIONS = [
    "bcast",
    "reduce",
    "allgather",
    "allgatherv",
    "reduce_scatter_block",
    "reduce_scatter",
    "allreduce",
    "alltoall",
    "gather",
    "scatter",
]

# What the MPI itself gets wrong is kept out of the way of *native* runs, which are only there to be
# compared with. The preloaded runs have none of this, unless they say that calls of theirs go native
# into the same trap.
#
# Open MPI 4.1 chooses the algorithm of MPI_Allgatherv by the size of the send type, which may
# differ between the ranks, so that they wait for each other for ever: the algorithm is fixed. Its
# MPI_Alltoall of small messages mixes up or overruns the buffers where the two sides' types differ, and
# its MPI_Allreduce by a ring corrupts the heap on some of the derived ones, now and then.
# MPICH 4.0 crashes in MPI_Reduce in place at a root other than 0 on one node (its issue 6540), and
# in MPI_Reduce_scatter in place with irregular counts, by algorithms that can be switched off; MPICH 5.0,
# which is behind the standard ABI, also in MPI_Allreduce on derived datatypes.
# Intel MPI's collectives over shared memory abort on more than some hundred communicators; by the
# algorithms that it chooses itself, its MPI_Allgather of nothing in place, its MPI_Gather, its MPI_Scatter
# of 33 processes, and its MPI_Reduce and MPI_Allreduce on derived datatypes, crash. Where processes share
# processors, its MPI_Bcast of 50 kB over shared memory gives a rank wrong bytes if a small MPI_Allreduce
# comes next.
OF_MPICH = {
    "MPIR_CVAR_DEVICE_COLLECTIVES": "none",
    "MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM": "recursive_halving",
}
NATIVE_ENVIRONMENT = {
    "openmpi": {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allgatherv_algorithm": "3",
        "OMPI_MCA_coll_tuned_alltoall_algorithm": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": "3",
    },
    "mpich": OF_MPICH,
    "intelmpi": {
        "I_MPI_COLL_INTRANODE": "pt2pt",
        "I_MPI_ADJUST_ALLGATHER": "1",
        "I_MPI_ADJUST_REDUCE": "2",
        "I_MPI_ADJUST_ALLREDUCE": "1",
        "I_MPI_ADJUST_GATHER": "1",
        "I_MPI_ADJUST_SCATTER": "1",
    },
    "mpiabi": OF_MPICH,
}

# More processes than processors, as root if need be, and without remarks on the network.
ENVIRONMENT = {
    "openmpi": {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        # What it chooses without a fast network anyway, but only after 0.2 s.
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl_base_warn_component_unused": "0",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        # The same for version 5, whose one-sided operations over UCX say that they cannot be had.
        "OMPI_MCA_osc": "^ucx",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    },
    "mpich": {},
    "intelmpi": {"I_MPI_FABRICS": "shm", "I_MPI_WAIT_MODE": "1"},
    "mpiabi": {},
}

# What it takes besides to start processes and to open ports. On Intel MPI, seconds.
SPAWNING = {
    "intelmpi": {"I_MPI_FABRICS": "shm:ofi", "I_MPI_SPAWN": "on", "FI_PROVIDER": "tcp"},
}


# Emulated hosts; and its status where the machine lets us make none.
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "cluster"
IMPOSSIBLE = 77


@dataclasses.dataclass
class Run:
    """A finished run."""

    command: list
    status: int | None  # None: it was killed at the time-out
    stdout: str
    stderr: str
    seconds: float
    report: dict | None = None
    launcher_failed: bool = False

    def describe(self):
        """What a failed test shows."""
        ended = "ran into the time-out" if self.status is None else f"ended with {self.status}"
        return "\n".join(
            [
                f"{' '.join(map(str, self.command))}",
                f"{ended} after {self.seconds:.1f} s",
                f"--- stdout (its end)\n{self.stdout[-2000:]}",
                f"--- stderr (its end)\n{self.stderr[-4000:]}",
            ]
        )

    def expect_success(self):
        assert self.status == 0, self.describe()
        return self

    def with_report(self, file):
        """With the report that the run left in a file, if it did."""
        path = pathlib.Path(file)
        report = json.loads(path.read_text()) if path.is_file() else None
        return dataclasses.replace(self, report=report)

    def rows(self):
        assert self.report is not None, "there is no report\n" + self.describe()
        return self.report["operations"]

    def outcomes(self, operation):
        """Calls of one operation by what became of them: {"circulant": 3, "small": 2}."""
        return {
            row.get("reason", row["algorithm"]): row["calls"]
            for row in self.rows()
            if row["operation"] == operation
        }

    def tried(self):
        """The operations of which an algorithm of the library's own was tried and timed."""
        assert self.report is not None, "there is no report\n" + self.describe()
        rows = self.report["learned"]
        return {row["operation"] for row in rows if row["tried"].keys() - {"native"}}

    def all_outcomes(self):
        operations = {row["operation"] for row in self.rows()}
        return {operation: self.outcomes(operation) for operation in operations}


@dataclasses.dataclass
class Mpi:
    """An MPI, and what was built for it."""

    family: str  # "openmpi", "mpich", "intelmpi" or "mpiabi"
    mpirun: str
    build: pathlib.Path  # holds libcirculant.so, tests/, venv/
    settings: dict  # where a test sets none

    @property
    def library(self):
        return self.build / "libcirculant.so"

    def program(self, name):
        return self.build / "tests" / name

    def native(self, processes, command, **options):
        return self.run(processes, command, environment=NATIVE_ENVIRONMENT[self.family], **options)

    def preloaded(
        self, processes, command, report, settings=None, trapped=False, library=None, **options
    ):
        """Under the library; the report is written to the file `report` and read from it."""
        environment = dict(NATIVE_ENVIRONMENT[self.family] if trapped else {})
        environment |= self.variables(report, settings or {})
        run = self.run(processes, command, library or self.library, environment, **options)
        return run.with_report(report)

    def variables(self, report, settings):
        """Those of the library, for a run with these settings and a report."""
        variables = {"REPORT": report, **self.settings, **settings}
        return {f"CIRCULANT_{name}": str(value) for name, value in variables.items()}

    def on_hosts(self, hosts, options, command, settings=None, report=None, fault=None, timeout=120):
        """One process on each of some emulated hosts, by scripts/cluster mpirun with these options; under the
        library if there are settings; with the variables of a fault."""
        variables = {}
        if settings is not None:
            libraries = [self.library, *((self.build / "tests").glob("lib*fault.so") if fault else [])]
            variables = {"LD_PRELOAD": ":".join(map(str, libraries)), **(fault or {}), **self.variables(report, settings)}
        words = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        mpirun = pathlib.Path(self.mpirun)
        mpicc = mpirun.with_name(mpirun.name.replace("mpirun", "mpicc"))
        cluster = [CLUSTER, "mpirun", "--mpi", mpicc, "--hosts", hosts, *options, *words, "--", *command]
        run = self.finish_job(list(map(str, cluster)), inherited(), timeout)
        return run.with_report(report) if report else run

    def run(
        self,
        processes,
        command,
        library=None,
        environment=None,
        timeout=120,
        spawns=False,
        folder=None,
        meanwhile=None,
    ):
        """In a folder, with one library preloaded, or several in the order of a list. `meanwhile` is called
        beside the run, with a function that finds the process of a rank."""
        preload = [self.build / "tests" / "libyield.so"]
        preload += library if isinstance(library, list) else [library] if library else []
        needed = {**ENVIRONMENT[self.family], **(SPAWNING.get(self.family, {}) if spawns else {})}
        environment = {**inherited(), **needed, **(environment or {})}
        environment["LD_PRELOAD"] = " ".join(map(str, preload))
        command = [self.mpirun, "-n", str(processes), *map(str, command)]
        return self.finish_job(command, environment, timeout, folder, meanwhile)

    def finish_job(self, *of_run):
        """Runs a job once more if Open MPI's launcher itself failed. Debian's 4.1.4 crashed or hung, with no rank
        left, after 10 of 75 native jobs that a rank had ended, on a busy machine; three times in a row once."""
        for _ in range(6):
            run = finish(*of_run)
            if not run.launcher_failed or self.family != "openmpi":
                break
            warnings.warn(f"the launcher failed: {run.describe()}")
        return run


def inherited():
    """The environment of the tests, without the library's variables."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CIRCULANT_")}


def finish(command, environment, timeout, folder=None, meanwhile=None):
    """Runs a command in a folder to its end or to its time-out."""
    start = time.monotonic()
    mark = f"{MARK}={uuid.uuid4()}"
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, **dict([mark.split("=")])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if meanwhile:
        threading.Thread(target=meanwhile, args=[functools.partial(process_of, mark.encode())]).start()
    try:
        stdout, stderr = process.communicate(timeout=timeout)
        status = process.returncode
        # Itself: a rank's signal gives a status of 128 and more. Or another launcher has removed the folder that it
        # was about to make.
        launcher_failed = status == -signal.SIGSEGV or "orte_session_dir failed" in stderr
    except subprocess.TimeoutExpired:
        launcher_failed = not has_ranks(mark.encode())
        end_marked(mark.encode())
        stdout, stderr = process.communicate()
        status = None
    seconds = time.monotonic() - start
    return Run(command, status, stdout, stderr, seconds, launcher_failed=launcher_failed)


# Launchers give the ranks process groups and sessions of their own, but pass the environment on.
MARK = "MPI_TEST_RUN"


def marked(mark):
    """Every process with this in its environment, and that environment."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue  # it ended meanwhile, or is another user's
        if mark in environment:
            yield int(entry.name), environment


def end_marked(mark):
    """Ends mpirun, its helpers, the ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process, _ in marked(mark):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass
        time.sleep(1)


# Only the ranks have it, and none of a launcher's helpers.
RANK = (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")


def has_ranks(mark):
    """Whether a rank is still there."""
    prefixes = tuple(name + b"=" for name in RANK)
    return any(word.startswith(prefixes) for _, environment in marked(mark) for word in environment)


def process_of(mark, rank):
    """The process of a rank, once it is there."""
    names = [b"%s=%d" % (name, rank) for name in RANK]
    while True:
        for process, environment in marked(mark):
            if any(name in environment for name in names):
                return process
        time.sleep(0.05)
