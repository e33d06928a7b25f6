"""Run by `test_split_weights.py` in two processes under FSDP2: METIS with its second loss and without it."""

import json
import sys
from pathlib import Path

import torch
from tests.hosts.trl.judging import copy_of, judge_gradient, judging_trainer, plain_steps, value_of
from tests.hosts.trl.setup import Diary
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from curro.prediction.metis import predictor

predictor.read_prediction = value_of
folder = Path(sys.argv[1])
ASKED = [[{"role": "user", "content": text}] for text in ("1 + 1 =", "what would 2 + 2 be?")]


def gathered(model):
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def flat(state, names):
    return torch.cat([state[name].double().ravel() for name in names])


moved, diary = {}, Diary()
for weight in (0.0, 0.5):
    diary.records.clear()
    host = judging_trainer(
        folder / "run",
        metis={"exemplars": 0, "weight": weight},
        on_groups=diary,
        ddp_backend="gloo",
        **plain_steps(loss_type="dr_grpo", per_device_train_batch_size=8),
    )
    before = copy_of(host.model)
    names = [name for name, _ in before.named_parameters()]
    host.train()
    after = gathered(host.model)
    moved[weight] = flat(before.state_dict(), names) - flat(after, names)

host.policy.access.sampling["temperature"] = 1e-6  # the likeliest token always


def ask():
    with host._owner.whole_model() as model:
        weights = {name: value.clone() for name, value in model.state_dict().items()}
    return weights, [reply.completion_ids for reply in host.policy.answer(ASKED, 5)]


weights, answers = host._owner.decide(ask)
report = {
    "equal": all(torch.equal(weights[name], after[name]) for name in names),
    "answers": answers,
    "split": sum(value.to_local().numel() for value in host.model.parameters()) / flat(after, names).numel(),
}
if host.accelerator.is_main_process:
    (record,) = diary.records
    expected = judge_gradient(before, record.verdict.auxiliary_samples) / host.max_completion_length
    report["error"] = float((moved[0.5] - moved[0.0] - 0.5 * expected).abs().max())
    report["size"] = float(expected.abs().max())
    plain = copy_of(before)
    plain.load_state_dict(after)
    host.model_wrapped = host.model = plain
    host._owner._is_split = lambda: False
    report["plain answers"] = [reply.completion_ids for reply in host.policy.answer(ASKED, 5)]
(folder / f"rank{host.accelerator.process_index}.json").write_text(json.dumps(report))
