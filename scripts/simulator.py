"""Runs the library inside of SimGrid's simulator (SMPI), by benches/paper_figures.c.

All ranks of a run are user-level threads of one process. smpicc and smpirun are in Debian's
libsimgrid-dev.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# By default: so many calls of each size; and of small ones, of which trials are a larger part.
CALLS = 40
CALLS_OF_SMALL = 400
COLUMNS = [
    "figure", "hosts", "p", "operation", "input", "bytes", "variant", "settings", "repetition", "seconds",
    "run_wall_s", "run_memory_mb",
]  # fmt: skip

# What joins the hosts: 100 Gbit/s a port and direction. The other settings make a message cost its
# overheads, latency and bytes, and nothing else; no send is complete before its receive is posted.
PORT = 12.5e9  # bytes a second
CLUSTER = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="host-" suffix="" radical="0-{last}" speed="1Gf" bw="12.5GBps" lat="0.5us"
           sharing_policy="SPLITDUPLEX" loopback_bw="10GBps" loopback_lat="0.3us"{flows}/>
</platform>
"""
# What a single flow between hosts is capped to, where one process cannot fill its port.
FLOW = 5e9  # bytes a second
CAPPED = ' bb_bw="{}Bps" bb_lat="0us" bb_sharing_policy="FATPIPE"'
SIMULATOR = [
    "smpi/simulate-computation:no", "smpi/lat-factor:0:1", "smpi/bw-factor:0:1", "network/crosstraffic:0",
    "smpi/wtime:0", "smpi/send-is-detached-thresh:0", "smpi/os:0:4e-7:0", "smpi/ois:0:4e-7:0", "smpi/or:0:4e-7:0",
]  # fmt: skip
# What is used around the measured call, by the program and by the library's agreements: what
# simulates fast. (SMPI's own allgather, with which ranks learn of each other's hosts, would take two
# minutes on 1152.)
AROUND = {
    "bcast": "binomial_tree", "reduce": "binomial", "allreduce": "redbcast", "barrier": "ompi_bruck",
    "allgather": "bruck", "gather": "ompi_binomial", "scatter": "ompi_binomial",
}  # fmt: skip

# The paper's rules of blocks for MPI_INT, in bytes: F = 70 and G = 40 are per sqrt(element). And its
# rounds, one message out and one in at a time, as MPI_Sendrecv makes them.
PAPER = {"F": 140, "G": 80, "WINDOW": 1, "SENDS": 1}
SETTINGS = {
    "paper": PAPER,
    "window 2": PAPER | {"WINDOW": 2},
    "window 4": PAPER | {"WINDOW": 4},
    "sends 2": PAPER | {"SENDS": 2},
    "window 4, sends 2": PAPER | {"WINDOW": 4, "SENDS": 2},
    "defaults": {},  # F = 18, window 1, sends 2
    "model": {"SELECT": "model"},
    "one lane": {"SELECT": "model", "LANES": 1},
    "two lanes": {"BCAST": "lanes", "REDUCE": "lanes", "LANES": 2, "BLOCKS": 20},
}


def start(folder, hosts, per_host, flow=None, last=None):
    """What starts a process on each place of that many hosts, of which the last may have fewer places; its files are in
    the folder. A flow has so many bytes a second at most."""
    places = [per_host] * (hosts - 1) + [last or per_host]
    flows = CAPPED.format(flow) if flow else ""
    (folder / "platform.xml").write_text(CLUSTER.format(last=hosts - 1, flows=flows))
    (folder / "hosts").write_text("".join(f"host-{i}:{count}\n" for i, count in enumerate(places)))
    return ["smpirun", "-platform", "platform.xml", "-hostfile", "hosts", "-np", str(sum(places))]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the simulator."""

    figure: str
    hosts: int
    per_host: int
    operation: str
    input: str
    variant: str  # circulant, or whose native algorithms
    sizes: tuple
    settings: str = "paper"
    type: str = "int"
    repetitions: int = 1
    verifies: bool = False
    shares: bool = False  # one copy of the program's statics for all ranks
    cost: float = 0  # a guess, to start the longest first
    flow: float | None = None  # bytes a second of one flow, at most
    last: int | None = None  # the processes of the last host, where they are fewer

    @property
    def p(self):
        return (self.hosts - 1) * self.per_host + (self.last or self.per_host)

    def __str__(self):
        verb = "verify" if self.verifies else "time"
        layout = f"{self.hosts} x {self.per_host}"
        return f"{verb} {self.operation}, {self.input}, {layout}, {self.type}, {self.variant}, {self.settings}: {self.sizes}"

    @property
    def is_ours(self):
        return self.variant in ("circulant", "default")

    def settled(self):
        return self.settings if self.is_ours else ""

    def simulator(self):
        algorithms = dict(AROUND)
        # SMPI makes the regular form of the irregular one.
        selected = self.operation.removesuffix("_block")
        if self.variant == "default":
            # What the library is compared with while it decides.
            algorithms[selected] = "mvapich2" if selected == "bcast" else "mpich"
        elif not self.is_ours:
            algorithms[selected] = self.variant
        return [
            *SIMULATOR,
            *(f"smpi/{operation}:{name}" for operation, name in algorithms.items()),
            *(["contexts/stack-size:256", "contexts/guard-size:0"] if self.shares else []),
        ]

    def command(self, program, folder):
        return [
            *start(folder, self.hosts, self.per_host, self.flow, self.last),
            *(["-no-privatize"] if self.shares else []),
            *(f"--cfg={setting}" for setting in self.simulator()),
            # Asked for an error handler, SMPI answers with none, and then warns of it.
            "--log=root.thres:warning", "--log=smpi_pmpi.thres:error",
            program, "verify" if self.verifies else "time", self.operation, self.input, self.type,
            self.variant if self.is_ours else "native", str(self.repetitions), *map(str, self.sizes),
        ]  # fmt: skip

    def environment(self):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CIRCULANT_")}
        # Without copies the ranks share the count of private communicators as well.
        settings = {"COMMUNICATORS": 1_000_000} | SETTINGS[self.settings]
        if self.variant == "circulant":
            settings["FORCE"] = 1
            if not self.verifies:
                settings["ALLTOALL"] = "combining"  # the all-to-all in few rounds
        return inherited | {f"CIRCULANT_{name}": str(value) for name, value in settings.items()}


def build():
    """The program with the library in it, and its path."""
    subprocess.run(["make", "--no-print-directory", "-C", ROOT, "simulated", "MPICC=smpicc"], check=True)
    mpi = subprocess.run([ROOT / "scripts/mpi-id", "smpicc"], check=True, capture_output=True, text=True).stdout
    return ROOT / "build" / mpi.strip() / "paper_figures"


started = set()  # process groups


def end_all(status):
    """Ends every simulator and this program, at once: its threads wait for them."""
    for group in list(started):
        os.killpg(group, signal.SIGKILL)
    os._exit(status)


def execute(program, run):
    """The rows of a run, whose program proves that the variant ran (else it fails)."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        command, output = run.command(program, folder), folder / "output"
        begin = time.monotonic()
        with output.open("w") as file:
            # A group of its own: smpirun leaves the simulator behind when it alone is ended.
            process = subprocess.Popen(
                list(map(str, command)), cwd=folder, env=run.environment(), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            started.add(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
            started.discard(process.pid)
        lines = output.read_text(errors="replace").splitlines()
    seconds, megabytes = time.monotonic() - begin, usage.ru_maxrss // 1000
    if status != 0:
        raise RuntimeError("\n".join([str(run), *lines[:5], *lines[-5:]]))
    print(f"{seconds:6.1f} s {megabytes:5d} MB  {run}", flush=True)
    rows = [row_of(run, line.split(","), seconds, megabytes) for line in lines if line.count(",") == 6]
    if run.repetitions == 1:
        return rows
    return [steady(rows, size) for size in dict.fromkeys(row["bytes"] for row in rows)]


def counted(calls):
    """How many of the last calls count: some less than a quarter."""
    return (calls - 1) // 4


def steady(rows, size):
    """Of the last calls of this size the one whose time is the median. A few may still be trials."""
    of_size = [row for row in rows if row["bytes"] == size]
    last = of_size[-counted(len(of_size)) :]
    return sorted(last, key=lambda row: float(row["seconds"]))[len(last) // 2]


def row_of(run, printed, wall, megabytes):
    p, operation, kind, ran_by, size, repetition, seconds = printed
    settings = ran_by if run.variant == "default" else run.settled()
    values = [
        run.figure, run.hosts, p, operation, kind, size, run.variant, settings, repetition, seconds,
        f"{wall:.0f}", megabytes,
    ]  # fmt: skip
    return dict(zip(COLUMNS, map(str, values)))


def execute_all(runs):
    """The rows of all runs. Where one fails, the others are ended, and this program."""
    program = build()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: end_all(128 + received))
    rows = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        longest_first = sorted(runs, key=lambda run: -run.cost)
        pending = [pool.submit(execute, program, run) for run in longest_first]
        for done in concurrent.futures.as_completed(pending):
            try:
                rows += done.result()
            except RuntimeError as error:
                pool.shutdown(wait=False, cancel_futures=True)
                print(f"a simulated run failed: {error}", file=sys.stderr)
                end_all(1)
    return in_order(rows)


def in_order(rows):
    return sorted(rows, key=lambda row: [row[column].zfill(12) for column in COLUMNS[:9]])
