"""`curro sft`: worked answers in, a model out that writes them; LoRA here and in `curro train`."""

from __future__ import annotations

import json

import pytest
import torch

from curro import lab
from curro.lab.model import build_model
from curro.rollout.engines.models import load_model


@pytest.fixture
def untrained(tmp_path):
    """A small model with random weights, as a folder."""
    torch.manual_seed(0)
    tokenizer = lab.load("chains")[1]
    build_model(tokenizer, width=32, layers=1).save_pretrained(tmp_path / "untrained")
    tokenizer.save_pretrained(tmp_path / "untrained")
    return "untrained"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def likelihood(folder, prompt, answer):
    """The mean log-probability of the answer's tokens and the end after the prompt."""
    model, tokenizer = load_model(str(folder))
    start = tokenizer(prompt)["input_ids"]
    ids = [*start, *tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0, len(start) - 1 : -1]
    return torch.log_softmax(logits, -1)[range(len(ids) - len(start)), ids[len(start) :]].mean().item()


@pytest.mark.parametrize(("lora", "gain"), [([], 5.0), (["--lora-rank", "8"], 0.5)], ids=["all", "lora"])
def test_a_model_learns_to_write_worked_answers(curro, untrained, tmp_path, lora, gain):
    """All weights learn the answers by heart; LoRA has but the fixed weights of chance to work on."""
    rows = [{"prompt": f"{i}abc=", "answer": "0", "solution": f"{i}{i}{i}"} for i in range(8)]
    write(tmp_path / "worked.jsonl", rows)
    arguments = ["--data", "worked.jsonl", "--model", untrained, "--batch", "8", "--out", "sft", *lora]
    said = curro("sft", *arguments, "--epochs", "40", "--learning-rate", "0.01")
    assert "done: the model is in sft" in said
    assert likelihood("sft", "3abc=", "333") > likelihood(untrained, "3abc=", "333") + gain
    assert likelihood("sft", "3abc=", "333") > likelihood("sft", "3abc=", "0"), "the answer is not worked"
    assert not (tmp_path / "sft" / "adapter_config.json").exists()
    assert "sft exists and is not an empty folder" in curro("sft", *arguments, status=2)


def test_conversations_are_answered_by_the_assistant(curro, untrained, tmp_path):
    chat = [{"role": "user", "content": "3abc="}]
    write(tmp_path / "worked.jsonl", [{"prompt": chat, "answer": "777"}])
    curro(
        *("sft", "--data", "worked.jsonl", "--model", untrained, "--out", "sft", "--epochs", "40"),
        *("--learning-rate", "0.01"),
    )
    prompt = lab.load("chains")[1].apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert likelihood("sft", prompt.removeprefix("<bos>"), "777") > -0.5


def test_answers_after_which_the_model_would_not_stop_are_refused(curro, untrained, tmp_path):
    chat = [{"role": "user", "content": "3abc="}]
    arguments = ["sft", "--data", "worked.jsonl", "--model", untrained, "--out", "sft"]
    for end in ("<|im_end|>", "<|endoftext|>\n", "</s>"):
        write(
            tmp_path / "worked.jsonl",
            [{"prompt": "1a=", "answer": "7"}, {"prompt": "2a=", "answer": f"7{end}"}],
        )
        said = curro(*arguments, status=2)
        assert f"the worked answer of row 1 of worked.jsonl ends with {end.strip()}: leave it out" in said
    write(tmp_path / "worked.jsonl", [{"prompt": chat, "answer": "7"}])
    template = tmp_path / untrained / "chat_template.jinja"
    template.write_text(template.read_text().replace("eos_token", "'<|user|>'"))
    said = curro(*arguments, status=2)
    assert "ends an answer with 'assistant|>7<|user|>', and the model stops at '<eos>'" in said


def test_lora_in_training_leaves_a_plain_model(curro, tmp_path):
    """Its weights differ from the start's by matrices of the rank asked for."""
    curro(
        *("train", "--data", "lab:chains", "--lora-rank", "2", "--rollouts", "96", "--prompts-per-step", "4"),
        *("--eval-every", "0", "--eval-prompts", "4", "--learning-rate", "0.01", "--warmup-steps", "0"),
        *("--curriculum", "uniform", "--out", "run"),
    )
    trained, start = load_model(str(tmp_path / "run" / "model"))[0], load_model("lab:chains")[0]
    change = trained.model.layers[0].mlp.up_proj.weight - start.model.layers[0].mlp.up_proj.weight
    sizes = torch.linalg.svdvals(change.double())
    assert sizes[0] > 1e-6
    assert (sizes[2:] < 1e-3 * sizes[0]).all()
    assert torch.equal(trained.model.embed_tokens.weight, start.model.embed_tokens.weight)


def test_mistakes(curro, tmp_path, untrained):
    write(tmp_path / "worked.jsonl", [{"prompt": "1", "answer": "2"}, {"prompt": "2", "answer": None}])
    said = curro("sft", "--data", "worked.jsonl", "--model", untrained, status=2)
    assert "row 1 of worked.jsonl has no worked answer: name its column with --answer-column" in said
    said = curro("sft", "--data", "worked.jsonl", "--model", untrained, "--learning-rate", "0", status=2)
    assert "--learning-rate must be a finite number above 0" in said
    assert "name a model for worked.jsonl" in curro("sft", "--data", "worked.jsonl", status=2)
