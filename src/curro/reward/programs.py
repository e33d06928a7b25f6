"""Programs in completions: which block is meant, and what starter code would put before it."""

from __future__ import annotations

import ast
import builtins
import html
import importlib
import re
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import chain, islice

from curro.reward.answers import in_answer_tags, outside_thoughts, without_end_tokens
from curro.reward.sandbox.inside.wire import global_names

_FENCE = re.compile(r"([ \t>]*)(`{3,}+|~{3,}+)[ \t]*+([^`\n]*)$")
_FENCE_BEHIND_TEXT = re.compile(r"^(?=[ \t>]*[^\s>`~])(.*[ \t])(```+(?:python3?|py))[ \t]*$", re.MULTILINE)
_FENCE_AT_END = re.compile(r"^([^`\n]*[^\s`])(```+)[ \t]*$", re.MULTILINE)
_PYTHON = ("python", "py", "python3", "{python}")
_TAGS = re.compile(r"(?:\[PYTHON\]|\[BEGIN\]|<code>)(.*?)(?:\[/PYTHON\]|\[DONE\]|</code>|\Z)", re.DOTALL)


def program_of(completion: str, names: frozenset[str] = frozenset()) -> str:
    """The program in a completion: one of its blocks between fences, outside of the thought; else all of it.

    Fences are CommonMark's: three or more backticks or tildes, indented or not. One within a docstring does
    not end a block that would not be Python there. Blocks marked as Python come before others. The last one
    that defines a name of the tests is the program, so that an example of its use behind it is not. If there
    is none, it is the last block that does more than show values, as an output does. Blocks before it that
    define what it uses and lacks belong to it.

    Args:
        names: what the tests use.
    """
    text = without_end_tokens(outside_thoughts(completion)).lstrip("\n\ufeff")
    text = re.sub(r"<[^<>\n]{1,30}>\s*(?=```|~~~)|(?<=```)\s*<[^<>\n]{1,30}>", "\n", text)
    text = _FENCE_BEHIND_TEXT.sub(r"\1\n\2", re.sub(r"\r\n?", "\n", text))
    text = _FENCE_AT_END.sub(r"\1\n\2", text)
    blocks = _blocks(text.split("\n"))
    if not blocks:
        tagged = _TAGS.findall(text)
        return tagged[-1].strip("\n") if tagged else in_answer_tags(text) or text
    marked = [block for language, block in blocks if language in _PYTHON]
    plain = [block for language, block in blocks if not language]
    programs = marked or plain or [block for _, block in blocks]
    programs = [_unescaped(program.lstrip("\ufeff")) for program in programs]  # which begins a file, no text
    trees = [parsed(program) for program in programs]
    for wanted in (_defines, _does_something):
        for i in reversed(range(len(programs))):
            tree = trees[i]
            if tree is not None and wanted(tree, names):
                return "\n\n".join([*_helpers(programs[:i], trees[:i], programs[i]), programs[i]])
    return programs[-1]


def _unescaped(program: str) -> str:
    """A program with signs for HTML's names of them, where only that is Python."""
    if "&" not in program or parsed(program) is not None:
        return program
    plain = html.unescape(program)
    return program if parsed(plain) is None else plain


def _helpers(programs: Sequence[str], trees: Sequence[ast.Module | None], program: str) -> list[str]:
    """The blocks that define what a later one uses and does not define."""
    helpers: list[str] = []
    used, bound = global_names(program)
    lacking = used - bound - {*dir(builtins)}
    for block, tree in zip(reversed(programs), reversed(trees), strict=True):
        if tree is not None and _defines(tree, frozenset(lacking)):
            helpers.insert(0, block)
            used, bound = global_names(block)
            lacking = (lacking | used) - bound - {*dir(builtins)}
    return helpers


def _blocks(lines: Sequence[str]) -> list[tuple[str, str]]:
    """(language, text) of every block; one that is never closed goes on to the end."""
    bare = [line.strip(" \t>") for line in lines]
    fences = [text if text.strip("`") == "" or text.strip("~") == "" else "" for text in bare]
    blocks, tried = [], 0
    i = 0
    while i < len(lines):
        opening = _FENCE.match(lines[i])
        if opening is None:
            i += 1
            continue
        indent, fence, info = opening.groups()
        closing = islice((j for j in range(i + 1, len(lines)) if fences[j].startswith(fence)), 20)
        ends = chain(closing, [len(lines)])
        language = (info.split() or [""])[0].lower()
        end = next(ends)
        text = _without_indent(lines[i + 1 : end], len(indent))
        if language in _PYTHON and parsed(text) is None:
            for j in ends:
                longer = _without_indent(lines[i + 1 : j], len(indent))
                tried += len(longer)
                if tried > _MOST_TRIED:
                    break
                if parsed(longer) is not None:
                    end, text = j, longer
                    break
        blocks.append((language, text))
        i = end + 1
    return blocks


_MOST_TRIED = 200_000
"""Characters that are parsed to see whether blocks end behind their first closing fence."""


def _without_indent(lines: Sequence[str], width: int) -> str:
    return "\n".join(line[width:] if not line[:width].strip(" \t>") else line for line in lines)


def parsed(program: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defines(tree: ast.Module, names: frozenset[str]) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    defined |= {target.id for target in assigned if isinstance(target, ast.Name)}
    return bool(defined & names)


_STARTERS = (
    *("collections", "typing", "dataclasses", "functools", "heapq", "bisect", "itertools", "math", "copy"),
    *("operator", "random", "string", "re", "datetime", "json", "statistics", "sys"),
)
_NODES = {
    "ListNode": "class ListNode:\n    def __init__(self, val=0, next=None): self.val, self.next = val, next",
    "TreeNode": "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n"
    "        self.val, self.left, self.right = val, left, right",
}


@cache
def _starter_lines() -> dict[str, str]:
    """What sites whose starter code programs complete put before one: the statement that brings each name."""
    lines: dict[str, str] = {}
    for name in reversed(_STARTERS):
        module = importlib.import_module(name)
        lines |= {
            n: f"from {name} import {n}" for n in getattr(module, "__all__", dir(module)) if n[0] != "_"
        }
    return lines | {name: f"import {name}" for name in _STARTERS if name not in ("copy", "bisect")} | _NODES


def with_imports(program: str, names: frozenset[str] = frozenset()) -> str:
    """The program behind imports of the names that starter code gives, of those it uses and does not bind.

    Args:
        names: what the tests use.
    """
    used, bound = global_names(program)
    used |= names & _NODES.keys()
    lines = [
        _starter_lines()[name] for name in sorted(used - bound - {*dir(builtins)}) if name in _starter_lines()
    ]
    tree = parsed(program)
    if not lines or tree is None:
        return program
    first = next((i for i, node in enumerate(tree.body) if not _stays_first(node)), 0)
    place = (tree.body[first - 1].end_lineno or 0) if first else 0
    text = program.split("\n")
    return "\n".join([*text[:place], *lines, *text[place:]])


def _stays_first(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def entry_call(program: str) -> str:
    """A call of the function that a program of definitions alone begins in, as `solve()`; "" elsewhere."""
    tree = parsed(program)
    if tree is None or any(isinstance(node, ast.Expr | ast.If | ast.For | ast.While) for node in tree.body):
        return ""
    functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in ("main", "solve", "solution"):
        if name in functions and len(functions[name].args) == len(functions[name].defaults):
            return f"\n\n{name}()\n"
    return ""


def _does_something(tree: ast.Module, names: frozenset[str]) -> bool:
    """Whether a block has a statement other than values and names, which is what an output looks like."""
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in tree.body)
