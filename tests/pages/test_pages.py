"""The pages: links lead somewhere, blocks of code say whether they are run, what is generated is current, and the
messages that they explain are those of the source.

    python3 -m unittest discover --start-directory tests/pages

Needs nothing that is built. run_blocks.py runs the blocks.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import markdown
from markdown import ROOT

LANGUAGES = {"sh", "c", "json", "lua", "tcl", "toml", "dockerfile", "text"}
# What writes pages from rows that were measured, and needs nothing but Python for that.
GENERATORS = [
    ["make", "--silent", "tables"],
    ["scripts/few-rounds", "--draw"],
    ["scripts/bench-merge", "--draw"],
    ["scripts/bench-intergroup", "--draw"],
    ["scripts/bench-successive", "--draw"],
]
# Figures of calls that circulant never leaves to the MPI library, or of no calls.
WITHOUT_CHOICE = {"docs/research/schedules.md"}
TROUBLESHOOTING = ROOT / "docs/users/troubleshooting.md"
# What may be left out of a comparison: a few letters are in any message.
LEAST = 8


def name(page):
    return str(page.relative_to(ROOT))


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        wrong = []
        for page in markdown.pages():
            for line, target in markdown.links(page):
                if problem := markdown.problem_of(page, target):
                    wrong.append(f"{name(page)}:{line}: {target}: {problem}")
        self.assertEqual(wrong, [])

    def test_every_page_of_docs_is_reached_from_the_index(self):
        index = ROOT / "docs/README.md"
        reached, left = {index}, [index]
        while left:
            page = left.pop()
            for _, target in markdown.links(page):
                file = (page.parent / target.partition("#")[0]).resolve()
                if file.suffix == ".md" and file not in reached and file.is_file():
                    reached.add(file)
                    left.append(file)
        lost = [name(page) for page in markdown.pages() if page.is_relative_to(ROOT / "docs") and page not in reached]
        self.assertEqual(lost, [])


class Figures(unittest.TestCase):
    def test_pages_with_figures_say_what_they_are(self):
        """Forced or by default, and on which hosts: each page, and each section with a table of figures unless the
        page says so above it."""
        measured = [page for page in markdown.pages() if page.is_relative_to(ROOT / "docs/research")]
        self.assertGreater(len(measured), 15)
        for page in [ROOT / "README.md", ROOT / "docs/users/is-it-for-me.md", *measured]:
            whole = page.read_text().lower()
            beginning, *sections = re.split(r"^## ", whole, flags=re.MULTILINE)
            with_figures = [text for text in sections if re.search(r"^\|.*\| *\d+\.\d", text, re.MULTILINE)]
            for text in [whole, *(beginning + section for section in with_figures)]:
                place = f"{name(page)}: {text[len(beginning):].partition(chr(10))[0]}"
                self.assertRegex(text, r"\b(emulated|simulated|real)\b", place)
                if name(page) not in WITHOUT_CHOICE:
                    self.assertRegex(text, r"\bforced\b|\bby default\b|\bdefault\b", place)


class Anchors(unittest.TestCase):
    def test_those_of_github(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(
                "# What a `native` call costs\n## 4 MB: time over the limit\n## p = 8 × 4\n## A [link](b.md), too\n"
                "## Same\n## Same\n## MPI_Bcast\n```sh\n# no heading\n```\n## *Emphasis* ends\n"
            )
            expected = {
                "what-a-native-call-costs", "4-mb-time-over-the-limit", "p--8--4", "a-link-too", "same", "same-1",
                "mpi_bcast", "emphasis-ends",
            }  # fmt: skip
            self.assertEqual(markdown.anchors(page), expected)

    def test_links_that_lead_nowhere_are_found(self):
        page = ROOT / "README.md"
        for target in ["nowhere.md", "README.md#nowhere", "#nowhere", "../outside.md", "/etc", "Makefile#all"]:
            self.assertIsNotNone(markdown.problem_of(page, target), target)
        for target in ["docs", "README.md", "#limits", "docs/README.md#for-users", "https://example.org/x"]:
            self.assertIsNone(markdown.problem_of(page, target), target)


class Blocks(unittest.TestCase):
    def test_every_block_names_a_language(self):
        wrong = [f"{block}: {block.language!r}" for page in markdown.pages() for block in markdown.blocks(page)
                 if block.language not in LANGUAGES]
        self.assertEqual(wrong, [])

    def test_reasons_are_above_shell_blocks_only(self):
        for page in markdown.pages():
            reasons = sum(bool(markdown.NOT_RUN.match(line)) for _, line in markdown.prose(page))
            blocks = [block for block in markdown.blocks(page) if block.reason]
            self.assertEqual(reasons, len(blocks), name(page))
            self.assertEqual({block.language for block in blocks} - {"sh"}, set(), name(page))

    def test_commands_are_in_shell_blocks(self):
        """A command with a prompt in an indented block would be neither run nor have a reason."""
        wrong = [f"{name(page)}:{number}" for page in markdown.pages() for number, line in markdown.prose(page)
                 if re.match(r" {4,}\$ ", line)]
        self.assertEqual(wrong, [])


class Generated(unittest.TestCase):
    def test_pages_are_as_their_scripts_write_them(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for part in ["docs", "scripts", "Makefile"]:
                copied = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
                copied(ROOT / part, copy / part)
            for command in GENERATORS:
                done = subprocess.run(command, cwd=copy, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, 0, f"{' '.join(command)}: {done.stdout}")
            pages = {page.relative_to(copy) for page in (copy / "docs").rglob("*.md")}
            self.assertEqual(pages, {page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")})
            stale = [str(page) for page in sorted(pages) if (copy / page).read_bytes() != (ROOT / page).read_bytes()]
            self.assertEqual(stale, [])


def literals(file):
    """The strings in a source file, without its tests: what is put in for each time is \\0."""
    text = re.sub(r"\\\n\s*", "", file.read_text().split("#[cfg(test)]")[0])
    for string in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
        yield re.sub(r"\{[^{}]*\}", "\0", string.replace('\\"', '"').replace("\\n", "\n"))


def pieces(message):
    """What of a message on the page is the same each time."""
    found = (piece.strip(" ,;:") for piece in re.split(r"<[^>]*>|\.\.\.|[:;] ", message))
    return [piece for piece in found if len(piece) >= LEAST]


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = [string for file in sorted((ROOT / "src").rglob("*.rs")) for string in literals(file)]
        text = TROUBLESHOOTING.read_text()
        tables = text[text.index("\n## Messages") : text.index("\n## Checking results")]
        cls.messages = re.findall(r"^\| `([^`]+)` \|", tables, re.MULTILINE)

    def test_there_are_some(self):
        self.assertGreater(len(self.messages), 30)

    def test_those_on_the_page_are_printed(self):
        """But for what the system says of files and programs."""
        wrong = [f"{message}: {piece}" for message in self.messages for piece in pieces(message)
                 if not self.is_printed(piece) and piece != "No such file or directory"]
        self.assertEqual(wrong, [])

    def is_printed(self, piece):
        """What is put into a string may begin behind its word "is", "and" or "but"."""
        without = re.sub(r"^(is|and|but) ", "", piece)
        return any(piece in string or string.startswith(without) for string in self.sources)

    def test_those_that_the_library_prints_are_on_the_page(self):
        known = [piece for message in self.messages for piece in pieces(message)]
        printed = [string for string in self.sources if string.startswith("circulant: ")]
        self.assertGreater(len(printed), 10)
        # Lines that say what happens, and complain of nothing.
        told = ["\0 #\0 \0 B p=", "version \0", "checked: \0", "\0 %, about", "no collective operation"]
        missing = [
            string for string in printed
            if max(map(len, string.removeprefix("circulant: ").split("\0"))) >= LEAST
            and not any(string.startswith(f"circulant: {beginning}") for beginning in told)
            and not any(piece in string for piece in known)
        ]  # fmt: skip
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
