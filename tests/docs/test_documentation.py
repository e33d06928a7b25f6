"""The documentation has blocks of known kinds only, and tells of every option."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    [
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        REPOSITORY / "src" / "curro" / "skill" / "SKILL.md",
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "benchmarks" / "pages").glob("*.md"),
    ]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_for_reading(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert set(fences[::2]) <= {"python", "bash", "text", "diff"}
    assert set(fences[1::2]) <= {""}


def test_every_command_has_an_example():
    from curro.cli import COMMANDS

    page = (REPOSITORY / "docs" / "commands.md").read_text()
    blocks = "".join(re.findall(r"^```(?:bash|text)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert {name for name in COMMANDS if re.search(rf"^curro {name}\b", blocks, re.MULTILINE)} == set(
        COMMANDS
    )


@pytest.mark.parametrize(
    ("page", "method"),
    [
        ("prioritized-replay", "curro.methods.selection.prioritized_replay:FadedReplay"),
        ("prioritized-replay", "curro.methods.selection.published_replay:PublishedReplay"),
        ("uniform", "curro.methods.selection.uniform:Uniform"),
        ("group-advantage", "curro.methods.advantage.group:GroupRelative"),
        ("pspo", "curro.methods.advantage.smoothed:Smoothed"),
        ("pspo", "curro.methods.selection.prioritized_sampling:PrioritizedSampling"),
        ("difficulty-filtering", "curro.methods.admission.band:DifficultyBand"),
        ("difficulty-filtering", "curro.methods.admission.variance:VarianceBand"),
        ("difficulty-filtering", "curro.methods.admission.signal:Signal"),
    ],
)
def test_every_option_of_a_method_is_documented(page, method):
    module, _, name = method.partition(":")
    text = (REPOSITORY / "docs" / f"{page}.md").read_text()
    for option in inspect.signature(getattr(importlib.import_module(module), name)).parameters:
        assert f"`{option}`" in text


def test_every_metric_is_documented():
    from curro import Curriculum

    text = (REPOSITORY / "docs" / "watch.md").read_text()
    for selection in ("uniform", "pspo", "prioritized-replay", "prioritized-replay:variant=published"):
        for name in Curriculum(selection, 10).metrics():
            assert f"`{name}`" in text


def slugs(page):
    """The anchors of a page's headings, as the site makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)(.*?)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        assert not anchor or anchor in slugs(found), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_there_is_to_type_exists(page):
    from curro.cli import COMMANDS

    blocks = re.findall(r"^ *```.*?^ *```|`[^`\n]+`|^    .*$", page.read_text(), re.MULTILINE | re.DOTALL)
    code = "\n".join(block.strip("` ") for block in blocks)
    scripts = re.findall(r"^(?:python )?((?:benchmarks|examples|recipes)/[\w/.-]+\.\w+)", code, re.MULTILINE)
    modules = re.findall(r"python -m ((?:benchmarks|tests)\.[\w.]+)", code)
    paths = [module.replace(".", "/") for module in modules]
    scripts += [path if (REPOSITORY / path).is_dir() else f"{path}.py" for path in paths]
    assert not [script for script in scripts if not (REPOSITORY / script).exists()]
    assert set(re.findall(r"^(?:python -m )?curro ([a-z]+)\b", code, re.MULTILINE)) <= set(COMMANDS)
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"^make ([a-z-]+)", code, re.MULTILINE)) <= set(targets)
