"""The pages as their readers see them: blocks of code, commands to type and what they print, commands within a line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]

_ENDS = ";|&()<>\n"
_INLINE = re.compile(r"`((?:private-topk|python|make|pip|source|report|gcloud|docker|kubectl) [^`]*)`")


@dataclass(frozen=True)
class Block:
    """A stretch of code of a page: fenced, or indented by four spaces."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass
class Command:
    """What is typed, and the lines that the page shows below it."""

    typed: str
    shown: list[str] = field(default_factory=list)


def blocks(page: str) -> list[Block]:
    """Every block of a page, in its order; an indented one has the language `indented`."""
    lines = (ROOT / page).read_text("utf-8").splitlines()
    found: list[Block] = []
    number = 0
    while number < len(lines):
        line, start = lines[number], number + 1
        if line.startswith("```"):
            stop = next(n for n in range(start, len(lines)) if lines[n].startswith("```"))
            found.append(Block(page, start, line[3:], "".join(f"{text}\n" for text in lines[start:stop])))
            number = stop
        elif line.startswith("    ") and (number == 0 or not lines[number - 1].strip()):
            stop = next((n for n in range(start, len(lines)) if not lines[n].startswith("    ")), len(lines))
            found.append(Block(page, start, "indented", "".join(f"{text[4:]}\n" for text in lines[number:stop])))
            number = stop - 1
        number += 1
    return found


def commands(block: Block) -> list[Command]:
    """What a `console` block types line by line, or a `bash` block as a whole: continued lines belong together."""
    prompted = block.language == "console"
    found: list[Command] = []
    going_on = False
    for line in block.text.splitlines():
        if going_on:
            found[-1].typed += "\n" + (line.removeprefix(">").lstrip() if line.startswith(">") else line)
        elif not prompted or line.startswith("$ "):
            found.append(Command(line.removeprefix("$ ")))
        else:
            assert found, f"{block.place} shows output before any command"
            found[-1].shown.append(line)
            continue
        going_on = not _complete(found[-1].typed)
    return found


def calls(typed: str) -> Iterator[list[str]]:
    """The words of every call of our own command in what a shell reads; what it would work out is a date."""
    text = re.sub(r"\$\([^()]*\)", "2026-01-05", typed.replace("\\\n", ""))
    text = re.sub(r"<\((.*)\)", r"; \1", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split = " \t", True
    words: list[str] | None = []
    for word in [*lexer, ";"]:
        if set(word) <= set(_ENDS):
            if words:
                yield words[1:]
            words = []
        elif words:
            words.append(word)
        elif words is not None and "=" not in word:  # where a command stands
            words = [word] if word.endswith("private-topk") else None


def _complete(typed: str) -> bool:
    """Whether a shell would run it: no backslash at its end, no quote that is open, no loop without its end."""
    quotes = re.sub(r"\\.", "", typed)
    loops = len(re.findall(r"\bdo\b", quotes)) - len(re.findall(r"\bdone\b", quotes))
    return not typed.endswith("\\") and _closed(quotes) and loops <= 0


def _closed(text: str) -> bool:
    """Whether every quote is closed; within `"$(...)"` quotes count anew."""
    depth: list[str] = []
    number = 0
    while number < len(text):
        letter, inside = text[number], depth[-1] if depth else ""
        if inside == "'":
            depth[-1:] = [] if letter == "'" else ["'"]
        elif text.startswith("$(", number):
            depth.append(")")
            number += 1
        elif letter == inside:
            depth.pop()
        elif letter in "'\"" and not (letter == "'" and inside == '"'):
            depth.append(letter)
        elif letter == "(" and inside == ")":
            depth.append(")")
        number += 1
    return not depth


def in_lines(page: str) -> Iterator[str]:
    """The commands that stand within the text of a page."""
    text = (ROOT / page).read_text("utf-8")
    for block in re.findall(r"^```.*?^```", text, re.M | re.S):
        text = text.replace(block, "")
    yield from (" ".join(found.split()) for found in _INLINE.findall(text))
