"""What the tests need to know of a page: its anchors, its links, its blocks of code."""

import dataclasses
import functools
import os
import pathlib
import re
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {".git", "build", "target", "bench-results"}
# Templates are no pages: a page is made of each, with links as they are right there.
TEMPLATES = ROOT / "scripts"

FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<language>\S*)")
HEADING = re.compile(r"^#{1,6} +(?P<text>.*?) *#*$")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HTML_LINK = re.compile(r"<[a-z]+\s[^>]*?(?:href|src)=\"(?P<target>[^\"]+)\"")
HTML_ANCHOR = re.compile(r"<[a-z]+\s[^>]*?(?:id|name)=\"(?P<name>[^\"]+)\"")
NOT_RUN = re.compile(r"^ {0,3}<!-- not run: (?P<reason>.*\S) -->$")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: pathlib.Path
    line: int  # of its first fence, counted from 1
    language: str
    text: str
    reason: str  # why it is not run; empty if nothing says so

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages():
    """All pages of the repository."""
    for folder, names, files in os.walk(ROOT):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        for name in sorted(files):
            if name.endswith(".md") and pathlib.Path(folder) != TEMPLATES:
                yield pathlib.Path(folder, name)


def lines_of(page):
    return page.read_text().splitlines()


def prose(page):
    """(line number, line) of what is no block of code."""
    open_fence = None
    for number, line in enumerate(lines_of(page), 1):
        fence = FENCE.match(line)
        if open_fence:
            if fence and not fence["language"] and fence["marks"].startswith(open_fence):
                open_fence = None
        elif fence:
            open_fence = fence["marks"]
        else:
            yield number, line


def blocks(page):
    """The fenced blocks of a page."""
    begin = None
    lines = lines_of(page)
    for index, line in enumerate(lines):
        fence = FENCE.match(line)
        if begin is None:
            if fence:
                begin, opening = index, fence
        elif fence and not fence["language"] and fence["marks"].startswith(opening["marks"]):
            indent = len(opening["indent"])
            text = "".join(f"{inner[indent:]}\n" for inner in lines[begin + 1 : index])
            marker = NOT_RUN.match(lines[begin - 1]) if begin else None
            yield Block(page, begin + 1, opening["language"], text, marker["reason"] if marker else "")
            begin = None


def shown(markdown):
    """The text of a heading as a reader sees it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"<[^>]*>", "", text)
    return re.sub(r"[`*]", "", text)


@functools.cache
def anchors(page):
    """The names that links can have behind #, by GitHub's rules."""
    found = {}
    for _, line in prose(page):
        if heading := HEADING.match(line):
            name = re.sub(r"[^\w\- ]", "", shown(heading["text"]).lower()).replace(" ", "-")
            count = found.get(name)
            found[name] = 0 if count is None else count + 1
            if count is not None:
                found[f"{name}-{count + 1}"] = 0
        found.update((match["name"], 0) for match in HTML_ANCHOR.finditer(line))
    return frozenset(found)


def links(page):
    """(line number, target) of a page's links and pictures. The text of a link may go over several lines."""
    text = "".join(f"{line}\n" for line in lines_without_code(page))
    for pattern in (LINK, HTML_LINK):
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match["target"]


def lines_without_code(page):
    """All lines, those of code empty, and code within lines taken out."""
    lines = [""] * len(lines_of(page))
    for number, line in prose(page):
        lines[number - 1] = line
    empty = lambda span: "\n" * span[0].count("\n")  # noqa: E731
    return re.sub(r"(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", empty, "\n".join(lines), flags=re.DOTALL).split("\n")


def problem_of(page, target):
    """What is wrong with a link; None if nothing is."""
    if re.match(r"https?://|mailto:", target):
        return None
    if target.startswith("/"):
        return "it starts at the root of a file system"
    path, _, anchor = target.partition("#")
    file = page.parent / urllib.parse.unquote(path) if path else page
    file = pathlib.Path(os.path.normpath(file))
    if not file.is_relative_to(ROOT):
        return "it leaves the repository"
    if not file.exists():
        return "there is no such file"
    if not anchor:
        return None
    if file.suffix != ".md":
        return None if re.fullmatch(r"L\d+(-L\d+)?", anchor) else "only a page has anchors"
    return None if urllib.parse.unquote(anchor) in anchors(file) else "there is no such heading"
