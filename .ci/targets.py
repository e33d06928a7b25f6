"""Print the make targets that the changed files need, for `make check`.

    python .ci/targets.py [FILE ...]

Without files it takes those that differ from the branch `main` (`origin/main` where there is no local one),
with what is not committed yet. The table under "What to run" in CONTRIBUTING.md says which file needs what:
the last row that fits a file decides, as in a CODEOWNERS file. `*` stands for any text, slashes included.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| [^|]* \| (`[^|]*`) \| (`[^|]*`) \|$", re.MULTILINE)


def read_rows(page: str) -> list[tuple[list[str], list[str]]]:
    """The patterns and the targets of each row of the table."""
    return [
        (re.findall(r"`(\S+)`", files), re.findall(r"`(\S+)`", targets))
        for files, targets in ROW.findall(page)
    ]


def targets_of(files: Iterable[str], rows: list[tuple[list[str], list[str]]]) -> list[str]:
    """The targets of all files, in the order in which the table first names them."""
    needed = set()
    for file in files:
        fitting = [
            targets for patterns, targets in rows if any(fnmatchcase(file, pattern) for pattern in patterns)
        ]
        needed |= set(fitting[-1])
    return [
        target
        for target in dict.fromkeys(target for _, targets in rows for target in targets)
        if target in needed
    ]


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed_files() -> list[str]:
    """Files that differ from where this branch left main, deleted and new ones too."""
    branches = git("branch", "--all", "--format=%(refname:short)")
    base = next((name for name in ("main", "origin/main") if name in branches), "HEAD")
    (fork,) = git("merge-base", "HEAD", base)
    return [
        *git("diff", "--name-only", "--no-renames", fork),
        *git("ls-files", "--others", "--exclude-standard"),
    ]


if __name__ == "__main__":
    page = (ROOT / "CONTRIBUTING.md").read_text()
    print(" ".join(targets_of(sys.argv[1:] or changed_files(), read_rows(page))))
