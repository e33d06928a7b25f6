"""Run by `test_split_weights.py` in two processes under FSDP2: METIS with its second loss and without it."""

import json
import sys
from pathlib import Path

import torch
from tests.hosts.trl.judging import copy_of, judge_gradient, trained_with_and_without, value_of
from tests.hosts.trl.setup import Diary
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from curro.methods.prediction.metis import predictor

predictor.read_prediction = value_of
folder = Path(sys.argv[1])
ASKED = [[{"role": "user", "content": text}] for text in ("1 + 1 =", "what would 2 + 2 be?")]


def gathered(model):
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def flat(model):
    state = gathered(model)
    return torch.cat([state[name].double().ravel() for name, _ in model.named_parameters()])


diary = Diary()
before, host, further = trained_with_and_without(
    folder, diary, flat, loss_type="dr_grpo", per_device_train_batch_size=8
)
after = gathered(host.model)
host.policy.sampling["temperature"] = 1e-6  # the likeliest token always


def ask():
    with host.main_process.whole_model() as model:
        weights = {name: value.clone() for name, value in model.state_dict().items()}
    return weights, [reply.completion_ids for reply in host.policy.answer(ASKED, 5)]


weights, answers = host.main_process.decide(ask)
report = {
    "equal": all(torch.equal(weights[name], after[name]) for name, _ in before.named_parameters()),
    "answers": answers,
    "split": sum(value.to_local().numel() for value in host.model.parameters()) / further.numel(),
}
if host.accelerator.is_main_process:
    (record,) = diary.records
    expected = judge_gradient(before, record.verdict.auxiliary_samples) / host.max_completion_length
    report["error"] = float((further - 0.5 * expected).abs().max())
    report["size"] = float(expected.abs().max())
    plain = copy_of(before)
    plain.load_state_dict(after)
    host.model_wrapped = host.model = plain
    host.is_fsdp_enabled = False
    report["plain answers"] = [reply.completion_ids for reply in host.policy.answer(ASKED, 5)]
(folder / f"rank{host.accelerator.process_index}.json").write_text(json.dumps(report))
