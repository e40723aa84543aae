"""Builds for an MPI, runs on emulated hosts, and rows of measurements: what the benchmarks of single operations share."""

import argparse
import csv
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys

import machine
import timings

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "research" / "figures"
PACKAGED = {"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich"}
RATE = "40mbit"  # of a port
OPERATIONS = "bcast,reduce,allgather,allgatherv,reduce_scatter,allreduce"


def points(operations, inputs, sizes):
    """All of an operation, an input and a size. Those without parts have one input."""
    for operation in operations:
        yield from itertools.product([operation], inputs if operation in timings.WITH_COUNTS else ["regular"], sizes)


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Hosts, and the processes on each: the same number, or the numbers of a list in turn."""

    hosts: int
    per_host: str

    @classmethod
    def of(cls, text):
        """Of 16, 8x4 or 8x1,2,3,4."""
        if not (found := re.fullmatch(r"(\d+)(?:x(\d+(?:,\d+)*))?", text)):
            raise argparse.ArgumentTypeError(f"16, 8x4 or 8x1,2,3,4, not {text}")
        return cls(int(found[1]), found[2] or "1")

    def __str__(self):
        return str(self.hosts) if self.per_host == "1" else f"{self.hosts} × {self.per_host}"


def output_of(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout.strip()


def build(name):
    """Library and benchmarks for an MPI, by its short name: (MPI as scripts/cluster takes it, folder)."""
    machine.warn_if_busy()
    mpicc = PACKAGED.get(name) or output_of(ROOT / "scripts/mpi-wheel", name)
    subprocess.run(["make", "-C", ROOT, f"MPICC={mpicc}", "library", "collectives"], check=True, stdout=sys.stderr)
    folder = ROOT / "build" / output_of(ROOT / "scripts/mpi-id", mpicc)
    return (name if name in PACKAGED else mpicc), folder


def rows_on_hosts(mpi, folder, hosts, settings, *program, rate=RATE, per_host=1):
    """The rows that a program prints on so many hosts, with the library and `settings`."""
    environment = {"LD_PRELOAD": folder / "libcirculant.so", **settings}
    words = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    cluster = ["mpirun", "--hosts", str(hosts), "--per-host", str(per_host), "--rate", rate, "--mpi", mpi, *words]
    return rows_of(output_of(ROOT / "scripts/cluster", *cluster, "--", *map(str, program)))


def rows_on_this_host(mpi, folder, processes, settings, *program):
    """The rows that a program prints on so many processes of this host, with the library and `settings`."""
    where, name = os.path.split(PACKAGED.get(mpi, mpi))
    mpirun = os.path.join(where, name.replace("mpicc", "mpirun"))
    preload = {"LD_PRELOAD": folder / "libcirculant.so", **settings}
    allowed = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], "1")
    # More processes than processors are to yield: Open MPI's by the one name or the other.
    yielding = dict.fromkeys(["OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_rmaps_base_oversubscribe"], "1")
    yielding["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    command = [mpirun, "-n", str(processes), "env", *(f"{name}={value}" for name, value in preload.items())]
    return rows_of(output_of(*command, *map(str, program), env={**os.environ, **allowed, **yielding}))


def rows_of(printed):
    return list(csv.DictReader(printed.splitlines()))


def read_rows(path):
    """Those that were measured so far."""
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
