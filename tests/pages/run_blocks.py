#!/usr/bin/python3
"""Runs the shell blocks of the pages.

    tests/pages/run_blocks.py --build build/openmpi-4.1.4
    tests/pages/run_blocks.py --build build/openmpi-4.1.4 README.md docs/users/running.md
    tests/pages/run_blocks.py --list                       which are run, and why the others are not

The build has the library, its static form and the command, for Open MPI. Each page has a folder of its own, in
which its blocks run one after the other by bash -euo pipefail:

- the folder is a copy of the sources, with app.c, app.f90 and ./app, which app.c is compiled to (./master and
  ./worker are the same);
- /usr/local and /opt/circulant in a block stand for an installation that is made for this, whose command is on PATH;
- mpirun starts at most four processes, and mpicc and mpif90 are Open MPI's.

A block fails if its status is not 0, if it takes too long, or if circulant complains in it, for example that the
program runs natively. A block that is not run has the reason in a
comment directly above it: <!-- not run: needs Slurm -->.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import markdown
from markdown import ROOT

LONGEST = 30  # seconds of a block
MOST_PROCESSES = 4
SHOWN = 40  # lines of a block that fails
PREFIXES = re.compile(r"/(?:usr/local|opt/circulant)(?=/)")
COMPLAINTS = re.compile(
    r"circulant: .*(runs natively|go to the MPI library|cannot be|no such|is not used|only one of it|has another)"
)
# Also where this runs as root, and has fewer processors than processes.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
MPIRUN = f"""#!/bin/bash
# The {{mpirun}} of the pages, with at most {MOST_PROCESSES} processes of a program.
words=()
while [ $# -gt 0 ]; do
    case $1 in
    -n | -np)
        words+=("$1" "$(($2 < {MOST_PROCESSES} ? $2 : {MOST_PROCESSES}))")
        shift 2
        ;;
    *)
        words+=("$1")
        shift
        ;;
    esac
done
exec {{mpirun}} "${{words[@]}}"
"""


class Place:
    """Where blocks run: an installation, a program, and what is on PATH."""

    def __init__(self, folder, build, suffix):
        self.folder, self.prefix, self.bin = folder, folder / "prefix", folder / "bin"
        self.bin.mkdir()
        self.script("mpirun", MPIRUN.replace("{mpirun}", f"mpirun{suffix}"))
        for compiler in ["mpicc", "mpif90"]:
            self.script(compiler, f'#!/bin/sh\nexec {compiler}{suffix} "$@"\n')
        install = [ROOT / "scripts/install", build, build.name]
        subprocess.run(install, env={**os.environ, "PREFIX": str(self.prefix)}, check=True)
        self.app = folder / "app"
        subprocess.run([f"mpicc{suffix}", "-O2", "-o", self.app, ROOT / "tests/pages/app.c"], check=True)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CIRCULANT_", "LD_PRELOAD"))
        }
        self.environment |= OPEN_MPI | {
            "PATH": f"{self.bin}:{self.prefix}/bin:{os.environ['PATH']}",
            "PKG_CONFIG_PATH": f"{self.prefix}/lib/pkgconfig",
            # What ldconfig does for /usr/local.
            "LD_LIBRARY_PATH": f"{self.prefix}/lib",
        }

    def script(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def of_page(self, page):
        """A folder for the blocks of a page."""
        folder = self.folder / str(page.relative_to(ROOT)).replace("/", "-")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*markdown.SKIPPED, "__pycache__"))
        for name in ["app.c", "app.f90"]:
            shutil.copy(ROOT / "tests/pages" / name, folder)
        for name in ["app", "master", "worker"]:
            shutil.copy(self.app, folder / name)
        return folder

    def run(self, block, folder):
        """What is wrong with the block, or nothing; what it printed."""
        text = PREFIXES.sub(str(self.prefix), block.text)
        command = ["bash", "-euo", "pipefail", "-c", text]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(LONGEST)
                problem = f"status {status}" if status else ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                problem = f"it takes more than {LONGEST} s"
            output.seek(0)
            printed = output.read()
            complaint = COMPLAINTS.search(printed)
            return problem or (complaint and "circulant complains") or "", printed


def shell_blocks(names):
    pages = [pathlib.Path(name).resolve() for name in names] or list(markdown.pages())
    for page in pages:
        yield page, [block for block in markdown.blocks(page) if block.language == "sh"]


def show_list(pages):
    for _, blocks in pages:
        for block in blocks:
            print(f"{block}: {'not run: ' + block.reason if block.reason else 'run'}")


def run_all(pages, build, suffix):
    """How many blocks were run, and how many failed."""
    count = failed = 0
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        place = Place(pathlib.Path(folder), build, suffix)
        for page, blocks in pages:
            chosen = [block for block in blocks if not block.reason]
            work = place.of_page(page) if chosen else None
            for block in chosen:
                start = time.monotonic()
                problem, output = place.run(block, work)
                count += 1
                print(f"{block}: {problem or 'passed'}, {time.monotonic() - start:.1f} s", flush=True)
                if problem:
                    failed += 1
                    print(block.text + "\n".join(output.splitlines()[-SHOWN:]), flush=True)
            if work:
                shutil.rmtree(work)
    return count, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="the folder with the library and the command")
    parser.add_argument("--list", action="store_true", help="only list the blocks")
    parser.add_argument("pages", nargs="*", help="those pages only")
    given = parser.parse_args()
    pages = list(shell_blocks(given.pages))
    if given.list:
        return show_list(pages)
    if not given.build:
        parser.error("--build is missing")
    suffix = ".openmpi" if shutil.which("mpirun.openmpi") else ""
    count, failed = run_all(pages, given.build.resolve(), suffix)
    print(f"{count} blocks were run, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
