"""One program that has all mutants, of which an environment variable chooses one: a copy of the source in which a
function with mutants is a choice between its body and the mutated ones.

    fn f(a: u64) -> u64 { match crate::mutant::active(7) { 31 => { a - 1 } 32 => { a * 1 } _ => { a + 1 } } }

So that all are compiled at once, in two minutes, where a build for each would take days. Left out are mutants that are
in no function, or in one that is evaluated while compiling: those need builds of their own.

MUTANT=31 chooses mutant 31. MUTANT_LOG=FILE adds the number of each function that is entered to a file instead.
"""

import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ["--no-default-features", "--features=cli"]
# What a mutant makes of constants is wrong at run time, which a test may notice.
FLAGS = "-A warnings -A arithmetic_overflow -A unconditional_recursion -A unconditional_panic"
# Attempts to compile: each leaves out the mutants that do not pass the next check of the compiler.
ATTEMPTS = 12
# The functions that have mutants are fewer.
FUNCTIONS = 4096
MODULE = """
/// Which mutant is active.
pub mod mutant {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const UNKNOWN: usize = usize::MAX;
    const LOGS: usize = usize::MAX - 1;
    const FUNCTIONS: usize = %d;
    static ACTIVE: AtomicUsize = AtomicUsize::new(UNKNOWN);
    static ENTERED: [AtomicBool; FUNCTIONS] = [const { AtomicBool::new(false) }; FUNCTIONS];
    static LOG: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANT_LOG").ok());

    #[inline(always)]
    pub fn active(function: usize) -> usize {
        let active = ACTIVE.load(Ordering::Relaxed);
        if active >= LOGS { seldom(active, function) } else { active }
    }

    #[cold]
    #[inline(never)]
    fn seldom(active: usize, function: usize) -> usize {
        if active == UNKNOWN {
            let chosen = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            let active = if LOG.is_some() { LOGS } else { chosen };
            ACTIVE.store(active, Ordering::Relaxed);
            if active != LOGS { return active; }
        }
        if !ENTERED[function].load(Ordering::Relaxed) && !ENTERED[function].swap(true, Ordering::Relaxed) {
            use std::io::Write;
            let log = LOG.as_deref().unwrap_or_default();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(log);
            file.and_then(|mut file| file.write_all(format!("{function}\\n").as_bytes())).unwrap();
        }
        0
    }
}
""".replace("%d", str(FUNCTIONS))
MARK = re.compile(r"/\*(\d+)\*/")


class Source:
    """A file, with places in it as cargo-mutants gives them."""

    def __init__(self, path):
        self.path = path
        self.text = (ROOT / path).read_text()
        self.lines = [0] + [match.end() for match in re.finditer("\n", self.text)]

    def place(self, at):
        return self.lines[at["line"] - 1] + at["column"] - 1

    def span(self, of):
        return self.place(of["span"]["start"]), self.place(of["span"]["end"])

    def body(self, start):
        """Where the brace is that opens the body of the function that starts at a place."""
        at, depth = self.text.index("fn ", start), 0
        while True:
            character = self.text[at]
            if self.text.startswith("//", at):
                at = self.text.index("\n", at)
            elif character == '"':
                at += re.compile(r'"(\\.|[^"\\])*"', re.S).match(self.text, at).end() - at - 1
            elif character in "([":
                depth += 1
            elif character in ")]":
                depth -= 1
            elif character == "{" and depth == 0:
                return at
            at += 1


class Function:
    """An outermost function that has mutants, in it or in functions within it."""

    def __init__(self, source, span, mutants):
        self.source, (self.start, self.end), self.mutants = source, span, mutants
        self.brace = source.body(self.start)
        head = source.text[self.start : self.brace]
        own = (each for each in mutants if source.place(each["function"]["span"]["start"]) == self.start)
        self.is_boxed = "impl Iterator" in next((each["function"]["return_type"] for each in own), "")
        self.head = re.sub(r"\bconst\s+(?=fn )", "", head, count=1)
        self.key = f"{source.path}:{self.start}"

    def switched(self, number):
        """It as a choice between its bodies, each with a mark in front that says whose it is."""
        text, first, last = self.source.text, self.brace + 1, self.end - 1
        arms = [f"{self.head}{{ match crate::mutant::active({number}) {{\n"]
        for mutant in self.mutants:
            start, end = self.source.span(mutant)
            body = text[first:start] + mutant["replacement"] + text[end:last]
            arms.append(f"/*{mutant['id']}*/{mutant['id']} => {self.value(body)}\n")
        arms.append(f"/*0*/_ => {self.value(text[first:last])}}} }}")
        return "".join(arms)

    def value(self, body):
        # Iterators of different bodies have different types.
        return f"Box::new({{{body}}}) as Box<dyn Iterator<Item = _> + '_>," if self.is_boxed else f"{{{body}}}"


def all_mutants(files):
    """All mutants of files whose paths contain one of these words, with numbers."""
    command = ["cargo", "mutants", "--list", "--json", "--no-shuffle"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    for number, mutant in enumerate(found, 1):
        mutant["id"] = number
    return [each for each in found if not files or any(word in each["file"] for word in files)]


def functions_of(source, mutants):
    """The outermost functions of a file, with their mutants."""
    spans = sorted({source.span(each["function"]) for each in mutants}, key=lambda span: (span[0], -span[1]))
    outermost = []
    for span in spans:
        if not outermost or span[0] >= outermost[-1][1]:
            outermost.append(span)
    within = lambda each, span: span[0] <= source.span(each["function"])[0] < span[1]  # noqa: E731
    return [Function(source, span, [each for each in mutants if within(each, span)]) for span in outermost]


class Tree:
    """The copy of the source, and what of it can be compiled."""

    def __init__(self, folder, mutants):
        self.folder, self.mutants = folder, mutants
        self.unviable, self.left_out = set(), set()
        self.functions, self.marks = {}, {}

    def copy(self):
        shutil.rmtree(self.folder / "tree", ignore_errors=True)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                target = self.folder / "tree" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)

    def write(self):
        """Writes the files with functions that choose, and where in them which mutant is."""
        tree, by_file = self.folder / "tree", defaultdict(list)
        for mutant in self.mutants:
            if mutant["function"] and mutant["id"] not in self.unviable:
                by_file[mutant["file"]].append(mutant)
        self.functions, self.marks, numbers = {}, {}, iter(range(1, FUNCTIONS))
        for path, mutants in by_file.items():
            source, parts, at = Source(path), [], 0
            for function in functions_of(source, mutants):
                if function.key not in self.left_out:
                    number = next(numbers)
                    self.functions[number] = function
                    parts += [source.text[at : function.start], function.switched(number)]
                    at = function.end
            lines = ("".join(parts) + source.text[at:]).split("\n")
            marks = [(line, int(mark)) for line, text in enumerate(lines, 1) for mark in MARK.findall(text)]
            self.marks[path] = marks
            (tree / path).write_text("\n".join(lines))
        lib = (ROOT / "src/lib.rs").read_text()
        (tree / "src/lib.rs").write_text(lib + MODULE)

    def cargo(self, *options):
        """Runs cargo in it; its status and messages."""
        environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(self.folder / "target"),
            "RUSTFLAGS": FLAGS,
            "CARGO_PROFILE_DEV_DEBUG": "false",
        }
        command = ["cargo", *options, *FEATURES, "--message-format=json"]
        run = subprocess.run(command, cwd=self.folder / "tree", env=environment, capture_output=True, text=True)
        messages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        return run, messages

    def compile(self):
        """Leaves out what cannot be compiled. The programs of the tests, by their names."""
        self.copy()
        for _ in range(ATTEMPTS):
            self.write()
            run, messages = self.cargo("check", "--lib")
            if run.returncode == 0:
                return self.programs()
            self.leave_out(messages, run.stderr)
        raise SystemExit(f"mutants: the source cannot be compiled after {ATTEMPTS} attempts")

    def leave_out(self, messages, said):
        """Leaves out the mutants with errors; and functions that have some without any mutant."""
        errors = [each["message"] for each in messages if each.get("message", {}).get("level") == "error"]
        places = [span for error in errors for span in error["spans"] if span["is_primary"]]
        unviable, functions = set(), set()
        for span in places:
            before = [mark for line, mark in self.marks.get(span["file_name"], []) if line <= span["line_start"]]
            if before and before[-1]:
                unviable.add(before[-1])
            else:
                functions |= self.blamed(span, [mark for mark in before if mark])
        if not unviable and not functions:
            raise SystemExit(f"mutants: the source cannot be compiled:\n{said[-2000:]}")
        self.unviable |= unviable
        self.left_out |= functions

    def blamed(self, span, before):
        """Whose fault an error is that is in no mutant: functions that were to be evaluated while compiling, and
        are called there; else the one before it."""
        text = (self.folder / "tree" / span["file_name"]).read_text().split("\n")[span["line_start"] - 1]
        named = set(re.findall(r"(\w+)\(", text[span["column_start"] - 1 : span["column_end"]]))
        const = [each for each in self.functions.values() if "const fn" in each.source.text[each.start : each.brace]]
        called = {each.key for each in const if re.search(r"fn (\w+)", each.head)[1] in named}
        last = {each.key for each in self.functions.values() if before and before[-1] in ids(each)}
        return called or last

    def programs(self):
        run, messages = self.cargo("test", "--no-run", "--lib", "--bins", "--tests")
        if run.returncode:
            raise SystemExit(f"mutants: the tests cannot be compiled:\n{run.stderr[-2000:]}")
        found = {}
        for each in messages:
            if each.get("executable") and each["profile"]["test"]:
                kind = each["target"]["kind"][0]
                found[kind if kind in ("lib", "bin") else each["target"]["name"]] = each["executable"]
        return found


def ids(function):
    return {mutant["id"] for mutant in function.mutants}
