"""The machine that measures: what it needs, and whether it is busy."""

import functools
import os
import pathlib
import subprocess
import sys

SETUP = pathlib.Path(__file__).resolve().parent / "setup"


def need(*packages):
    """Ends with a line that names what is missing. Nothing that measures installs packages."""
    if subprocess.run([SETUP, "--check", *packages]).returncode:
        sys.exit(1)


@functools.cache
def warn_if_busy():
    """Says once that times of a machine with other work are those of that work as well."""
    load = os.getloadavg()[0]
    if load > 0.5 * os.cpu_count():
        busy = f"this machine is busy: {load:.1f} processes run on {os.cpu_count()} processors; times will be too long"
        print(f"{os.path.basename(sys.argv[0])}: {busy}", file=sys.stderr)
