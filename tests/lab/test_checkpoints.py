import json

import pytest
import torch
from benchmarks.learning.warm_models import pass_rates
from transformers import AutoModelForCausalLM, AutoTokenizer

from curro.core.errors import ConfigError
from curro.lab import families, family, load
from curro.lab.model import CHECKPOINTS
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import sample

NAMES = [name for name in families() if not family(name).checkpoint]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_small_and_loads_by_the_auto_classes(name: str) -> None:
    folder = CHECKPOINTS / name
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3e6
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ours, our_tokenizer = load(name)
    assert ours.dtype == torch.float32
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), ours.parameters(), strict=True))
    text = "How many legs? 3afc= 12 + 7"
    assert tokenizer(text)["input_ids"] == our_tokenizer(text)["input_ids"]
    assert tokenizer.padding_side == "left"


@pytest.mark.parametrize("name", NAMES)
def test_the_warm_model_never_solves_most_prompts_and_always_solves_few(name: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokenizer = load(name)
    task = family(name)
    rates = pass_rates(model, tokenizer, task, task.problems(100, seed=5), 8)
    assert 0.5 < (rates == 0).mean() < 0.97
    assert (rates == 1).mean() < 0.06
    assert 0.02 < rates.mean() < 0.2
    easy = pass_rates(model, tokenizer, task, task.problems(100, seed=5, difficulty="easy"), 8)
    assert easy.mean() > 0.5
    assert (easy >= 0.5).mean() > 0.55
    assert (easy == 0).mean() < 0.1
    assert (easy == 1).mean() < 0.5


@pytest.mark.parametrize("name", NAMES)
def test_what_was_measured_is_recorded(name: str) -> None:
    record = json.loads((CHECKPOINTS / name / "lab.json").read_text())
    assert record["family"] == name
    assert 0.55 <= record["pass_rates"]["hard"]["never"] <= 0.93
    assert record["pass_rates"]["hard"]["always"] < 0.05
    assert record["pass_rates"]["easy"]["never"] < 0.05
    assert record["pass_rates"]["easy"]["pass@1"] >= 0.53


def test_samples_keep_the_order_of_prompts_and_depend_on_the_seed_alone() -> None:
    model, tokenizer = load("chains")
    prompts = ["3abcdefgh=", "3a=", "5bcd="]
    torch.manual_seed(1)
    first = sample(model, tokenizer, prompts, n=2, settings=SamplingSettings(16))
    torch.manual_seed(1)
    assert sample(model, tokenizer, prompts, n=2, settings=SamplingSettings(16)) == first
    lengths = [[len(tokenizer.decode(ids, skip_special_tokens=True)) for ids in group] for group in first]
    assert lengths == [[8, 8], [1, 1], [3, 3]]


def test_samples_are_the_policy_s_own_whatever_its_generation_config_says() -> None:
    model, tokenizer = load("chains")
    torch.manual_seed(1)
    plain = sample(model, tokenizer, ["3abcdefgh="], n=40, settings=SamplingSettings(16))
    model.generation_config.update(repetition_penalty=5.0, top_k=2, top_p=0.1, min_p=0.9, min_new_tokens=12)
    torch.manual_seed(1)
    assert sample(model, tokenizer, ["3abcdefgh="], n=40, settings=SamplingSettings(16)) == plain


def test_a_chat_prompt_is_answered_too() -> None:
    model, tokenizer = load("chains")
    chat = [{"role": "user", "content": "3abc="}]
    ids = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**ids, do_sample=False, max_new_tokens=16)
    text = tokenizer.decode(output[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
    assert len(text) == 3
    assert text.isdigit()


def test_an_unknown_model_is_answered_with_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"'chain'.*chains"):
        load("chain")
