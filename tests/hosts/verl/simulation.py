"""A policy whose pass rates improve as it is trained, in the places of verl's workers, engine and servers.

Everything else of a run is verl's: trainer loop, data set and data loader, TransferQueue, replay buffer,
advantages, metrics, checkpoints, client and load balancer of the servers.
"""

from __future__ import annotations

import json
import os
import re
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_separate_async import HybridEngineMode
from verl.utils.tensordict_utils import assign_non_tensor, list_of_dict_to_tensordict
from verl.workers.engine.utils import prepare_micro_batches
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from curro.core.bases import Allocation
from curro.hosts.verl.credit import AUXILIARY
from curro.hosts.verl.settings import SCORED

RIGHT, WRONG, EOS, WIDTH = 3, 4, 0, 3


class Ragged(Allocation):
    """Groups of different sizes: of two neighbours the first gets two rollouts less, the other two more."""

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        rollouts_P = np.full(len(prompts), budget // len(prompts))
        pairs = len(prompts) // 2 * 2
        rollouts_P[:pairs] += np.resize([-2, 2], pairs)
        return rollouts_P


class Letters:
    """A tokenizer without a vocabulary: a token is a character."""

    eos_token_id = pad_token_id = EOS
    chat_template = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        return "".join(chr(int(token)) for token in ids if int(token) != EOS)


def number_of(text: str) -> int:
    """The prompt's number in its text; of a judgment's the last one's, which is judged."""
    return int(re.findall(r"(?:problem|What is) (\d+)", text)[-1])


class Policy:
    """Right with probability sigmoid(skill - difficulty): difficulties from -3 to 3 by number."""

    def __init__(self, prompts: int) -> None:
        self.prompts, self.skill, self.rate = prompts, 0.0, 0.5
        self.taught = 0

    def pass_rate(self, number: int) -> float:
        difficulty = 6 * (number % self.prompts) / (self.prompts - 1) - 3
        return float(1 / (1 + np.exp(difficulty - self.skill)))


class Engine:
    """Stands for the agent loops: all rollouts of a prompt are finished when it is asked for.

    Attributes:
        asked: (step, number, uid) of every training prompt.
        rewards: of every training group by its uid; of sessions that did not fail.
        fail: numbers of prompts of which some sessions fail (1), or all (2).
        extra: of every session's `reward_extra_info`, besides its own.
        unscored: numbers of prompts of which so many sessions are not scored.
        marks_unscored: whether such a session is marked as curro's own rewards mark it; else it has NaN.
        unchecked: numbers of prompts of which so many sessions have a score, and NaN for `math`.
        penalty: what every reward lacks, and no number of `reward_extra_info`.
        validation_size: rollouts of a prompt in validation.
        score: by a prompt's columns and whether a session is right, what verl's reward function returns.
    """

    extra: ClassVar[dict[str, Any]] = {}
    unscored: ClassVar[dict[int, int]] = {}
    marks_unscored: ClassVar[bool] = False
    unchecked: ClassVar[dict[int, int]] = {}
    penalty: ClassVar[float] = 0.0
    validation_size = 1

    def __init__(self, policy: Policy, size: int, fail: dict[int, int] | None = None) -> None:
        self.score: Callable[[dict[str, Any], bool], dict[str, float]] = lambda prompt, right: {
            "score": right - self.penalty
        }
        self.policy, self.size, self.fail = policy, size, fail or {}
        self.asked: list[tuple[int, int, str]] = []
        self.rewards: dict[str, list[float]] = {}
        self.validated: list[int] = []
        self.held: list[Any] | None = None

    def generate_sequences(self, batch: Any) -> None:
        names = list(batch.keys())
        step = int(getattr(batch["global_steps"], "data", batch["global_steps"]))
        validate = "validate" in names
        for row in range(len(batch)):
            values = {name: batch[name][row] for name in names if name not in ("global_steps", "validate")}
            prompt = {name: getattr(value, "data", value) for name, value in values.items()}
            if self.held is not None and not validate:
                self.held.append((prompt, step))
            else:
                self._answer(prompt, step, validate)

    def release(self) -> None:
        """Finish what was held back, and hold back what comes."""
        held, self.held = self.held or [], []
        for prompt, step in held:
            self._answer(prompt, step, False)

    def _answer(self, prompt: dict[str, Any], step: int, validate: bool) -> None:
        uid, number = prompt["uid"], number_of(prompt["raw_prompt"][-1]["content"])
        partition = "val" if validate else "train"
        size = self.validation_size if validate else self.size
        sessions = prompt.pop("__rollout_n__", size)  # as verl's agent loops do it
        tq.kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        if validate:
            self.validated.append(number)
        else:
            self.asked.append((step, number, uid))
        seed = [number, step] if validate else [number, step, int(uid.rpartition("-")[2])]
        rng = np.random.default_rng(seed)
        p, failed = self.policy.pass_rate(number), 0 if validate else self.fail.get(number, 0)
        fields, tags, keys = [], [], []
        said = {"form": 0.5, "said": "text"}
        for session in range({0: sessions, 1: sessions - 1, 2: 0}[failed]):
            right = float(rng.random() < p)
            scores = torch.zeros(WIDTH)
            is_scored = validate or session >= self.unscored.get(number, 0)
            given = self.score(prompt, bool(right))
            scores[-1] = given.pop("score") if is_scored else 0.0 if self.marks_unscored else float("nan")
            is_checked = session >= self.unchecked.get(number, 0)
            infos = {"acc": right, "math": right if is_checked else float("nan")} | said | given | self.extra
            if self.marks_unscored:
                infos[SCORED] = float(is_scored)
            answer = [RIGHT if right else WRONG, 5, EOS]
            fields.append(
                {
                    **prompt,
                    "prompts": torch.tensor([1, 2]),
                    "responses": torch.tensor(answer),
                    "response_mask": torch.ones(WIDTH, dtype=torch.int64),
                    "loss_mask": torch.ones(WIDTH, dtype=torch.int64),
                    "input_ids": torch.tensor([1, 2, *answer]),
                    "position_ids": torch.arange(2 + WIDTH),
                    "rollout_log_probs": torch.full((WIDTH,), -1.0),
                    "rm_scores": scores,
                    "num_turns": 2,
                    "pass_rate": torch.tensor([p]),
                    "extra_fields": {"reward_extra_info": infos},
                    "session_id": session,
                }
            )
            if not validate:
                self.rewards.setdefault(uid, []).append(float(scores[-1]) if is_scored else float("nan"))
            keys.append(f"{uid}_{session}_0")
            tags.append(
                {
                    "status": "success",
                    "prompt_len": 2,
                    "response_len": WIDTH,
                    "seq_len": 2 + WIDTH,
                    "global_steps": step,
                    "min_global_steps": step - 1,
                    "max_global_steps": step - 1,
                }
            )
        if keys:
            tq.kv_batch_put(
                keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id=partition
            )
        status = "failure" if failed else "finished"
        tq.kv_put(key=uid, partition_id=partition, tag={"status": status})


def cut(rows: int, ranks: int, micro: int) -> None:
    """Cut a worker's rows into micro-batches as verl's engines do."""
    assert rows % ranks == 0
    part = TensorDict({"row": torch.zeros(rows // ranks, 1)}, batch_size=rows // ranks)
    assign_non_tensor(part, use_dynamic_bsz=False, micro_batch_size_per_gpu=micro)
    prepare_micro_batches(part)


def rows_of(values: Any) -> list[Any]:
    """A column's; to index a nested tensor takes as long as to unbind it."""
    return (
        list(values.unbind()) if isinstance(values, torch.Tensor) else [values[i] for i in range(len(values))]
    )


class Workers:
    """Stands for the actor's workers: policy gradient on the logit of the pass rate, one optimizer step a
    mini-batch, on the rows that real workers would read from the queue."""

    def __init__(self, policy: Policy, config: Any, ranks: int = 1) -> None:
        self.policy = policy
        self.micro = config.actor.ppo_micro_batch_size_per_gpu
        self.log_prob_micro = config.rollout.log_prob_micro_batch_size_per_gpu
        self._dispatch_info = {"actor": list(range(ranks))}
        self.loss, self.saved = None, {}
        self.updates: list[dict[str, Any]] = []

    def save_model_to_cpu(self, number: int) -> None:
        self.saved[number] = self.policy.skill

    def restore_model_from_cpu(self, number: int) -> None:
        self.policy.skill = self.saved[number]

    def clear_cpu_model(self, number: int) -> None:
        del self.saved[number]

    def set_loss_fn(self, loss: Any) -> None:
        self.loss = loss

    def compute_log_prob(self, batch: Any) -> Any:
        cut(len(batch), len(self._dispatch_info["actor"]), self.log_prob_micro)
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["input_ids"])
        zeros = torch.nested.as_nested_tensor([torch.zeros(len(ids)) for ids in data["input_ids"].unbind()],
                                              layout=torch.jagged)  # fmt: skip
        fields = TensorDict({"log_probs": zeros, "entropy": zeros.clone()}, batch_size=len(batch))
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
        return batch

    def update_actor(self, batch: Any) -> Any:
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id)
        size = batch.extra_info["mini_batch_size"]
        assert len(batch) % size == 0
        cut(size, len(self._dispatch_info["actor"]), self.micro)
        columns = {name: rows_of(values) for name, values in data.items()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        ranks = len(self._dispatch_info["actor"])
        part, share = len(rows) // ranks, size // ranks
        for m in range(len(rows) // size):
            starts = [rank * part + m * share for rank in range(ranks)]
            self._update([row for start in starts for row in rows[start : start + share]])
        return {"metrics": {"mfu": [0.0], "pg_loss": [0.1]}}

    def _update(self, rows: list[dict[str, Any]]) -> None:
        trained = [row for row in rows if row["response_mask"].sum() > 0]
        auxiliary_samples = [row for row in rows if AUXILIARY in row and float(row[AUXILIARY])]
        gradient = 0.0
        for row in trained:
            advantage, answer = float(row["advantages"][0]), int(row["responses"][0])
            gradient += advantage * (float(answer == RIGHT) - float(row["pass_rate"]))
        self.policy.skill += self.policy.rate * gradient / max(len(trained), 1)
        self.policy.taught += len(auxiliary_samples)
        self.updates.append(
            {
                "rows": len(rows),
                "rollouts": [
                    (getattr(row["uid"], "data", row["uid"]), float(row["advantages"][0])) for row in trained
                ],
                "auxiliary_samples": [
                    (tuple(row["prompts"].tolist()), tuple(row["responses"].tolist()), float(row[AUXILIARY]))
                    for row in auxiliary_samples
                ],
            }
        )

    def save_checkpoint(self, path: str, *args: Any, **kwargs: Any) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / "policy.json").write_text(json.dumps([self.policy.skill, self.policy.taught]))

    def load_checkpoint(self, local_path: str, **kwargs: Any) -> None:
        self.policy.skill, self.policy.taught = json.loads((Path(local_path) / "policy.json").read_text())


def first_token(p: float) -> list[float]:
    """Probabilities of an answer's first token: right, wrong, and a hundred others the more rewards vary."""
    doubt = 2 * p * (1 - p)
    return [(1 - doubt) * p, (1 - doubt) * (1 - p), *[doubt / 100] * 100]


class Servers(GlobalRequestLoadBalancer):
    """verl's load balancer, which is also the one server that it knows: a worker of Ray takes long to start.

    Stands for a vLLM server: judges the last problem of a text by its difficulty, now and then in vain. Asked
    greedily it answers with one token, and it is less sure of it the more the rewards vary.
    """

    def __init__(self, prompts: int) -> None:
        super().__init__({"one": ray.get_runtime_context().current_actor})
        self.policy = Policy(prompts)

    def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict, image_data: Any, video_data: Any
    ) -> TokenOutput:
        number = number_of(Letters().decode(prompt_ids))
        p = self.policy.pass_rate(number)
        if not sampling_params["temperature"]:
            return self._places(p, prompt_ids, sampling_params)
        text = "I cannot tell" if number % 7 == 6 else rf"\boxed{{{p * (1 - p):.3f}}}"
        tokens = [*map(ord, text), EOS]
        assert len(tokens) <= sampling_params["max_tokens"]
        return TokenOutput(token_ids=tokens, extra_fields={"global_steps": 0})

    def _places(self, p: float, ids: list[int], sampling_params: dict) -> TokenOutput:
        """The likeliest token, and which were likely in the places of a prompt, if they are asked."""
        assert sampling_params["max_tokens"] == 1
        likeliest, extra = RIGHT if p > 0.5 else WRONG, {}
        if "prompt_logprobs" in sampling_params:
            assert ids[-2:] == [likeliest, EOS]
            others = sampling_params["prompt_logprobs"] - 2
            first = sorted(first_token(p)[: others + 2], reverse=True)
            sure, second = [1.0, *[0.0] * (others + 1)], [0.01] * (others + 2)
            places = np.log(np.maximum([*[sure] * (len(ids) - 3), first, second, sure], 1e-30))
            extra["prompt_logprobs"] = places.tolist()
        return TokenOutput(token_ids=[likeliest], extra_fields={"global_steps": 0} | extra)


@cache
def serve(prompts: int) -> Any:
    """Once for all runs of a process."""
    return ray.remote(Servers).options(num_cpus=0).remote(prompts)


class Quiet(types.SimpleNamespace):
    """Whatever is called does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class SimulatedParts:
    """To be mixed in before one of curro's trainers: everything that needs an accelerator is simulated."""

    policy: Policy
    ranks = 1

    def _setup(self) -> None:
        self.tokenizer, self.processor = Letters(), None
        self._init_dataloader()
        self._init_dump_executor()
        self.resource_pool_manager = types.SimpleNamespace(get_n_gpus=lambda: 1)
        self.policy = Policy(len(self.train_dataset))
        self.actor_rollout_wg = Workers(self.policy, self.config.actor_rollout_ref, self.ranks)
        self.reward_loop_manager = types.SimpleNamespace(reward_loop_worker_handles=[1])
        self.checkpoint_manager, self.llm_server_manager = Quiet(), Quiet()
        self.teacher_model_manager = self.distillation_config = None
        self.history: list[dict[str, Any]] = []
        self._load_checkpoint()

    def get_llm_client(self) -> Any:
        return LLMServerClient(self.config, serve(len(self.train_dataset)))

    def _start_profiling(self) -> None: ...

    def _stop_profiling(self) -> None: ...

    def _compute_metrics(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        self.history.append(dict(metrics) | {"policy/skill": self.policy.skill})
        if os.environ.get("CURRO_TEST_KILL") == str(self.global_steps):
            os.kill(os.getpid(), 9)


class StandaloneServers:
    """To be mixed in before `SimulatedParts` in the mode separate_async: servers on machines of their own."""

    def _setup(self) -> None:
        super()._setup()
        self.current_mode, self._enable_hybrid_replicas = HybridEngineMode.TRAINER, False
        self.standalone_checkpoint_manager = Synchronized()


class Synchronized:
    """Keeps the steps after which the servers were given the weights."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def update_weights(self, step: int) -> dict[str, float]:
        self.steps.append(step)
        return {}
