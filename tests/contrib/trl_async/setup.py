"""A tiny model, 64 prompts, and what takes the place of the GPU's parts in TRL's asynchronous trainer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from examples.trl_async import correct
from transformers import PreTrainedTokenizerFast
from trl.experimental.async_grpo import AsyncGRPOConfig, async_grpo_trainer, async_rollout_worker, packing

from curro.contrib.trl_async import AsyncCurriculumGRPOTrainer
from curro.lab.model import build_model, build_tokenizer

PROMPTS = 64


def dataset(prompts: int = PROMPTS) -> Dataset:
    """Every second prompt has an answer that the server never gives."""
    texts = [[{"role": "user", "content": f"{i} + {i} ="}] for i in range(prompts)]
    return Dataset.from_dict({"prompt": texts, "answer": [("5", "7")[i % 2] for i in range(prompts)]})


@contextmanager
def served(folder: Path, data: Dataset | None = None, **curriculum: str) -> Iterator[tuple[str, str]]:
    """The address and the token of `curro serve`, while it runs."""
    (data or dataset()).to_parquet(folder / "train.parquet")
    lines = [
        f'folder = "{folder / "service"}"',
        f'data = "{folder / "train.parquet"}"',
        "[curriculum]",
        "seed = 1",
    ]
    lines += [f'{name} = "{value}"' for name, value in curriculum.items()]
    (folder / "serve.toml").write_text("\n".join(lines))
    command = [sys.executable, "-m", "curro", "serve", str(folder / "serve.toml"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split(" prompts at ")[1].split(";")[0]
            yield address, (folder / "service" / "token").read_text().strip()
        finally:
            process.terminate()
            process.wait(600)


class NoTransfer:
    """Leaves the server's weights alone."""

    def init_weight_transfer(self) -> None: ...
    def pause(self) -> None: ...
    def send_weights(self, iterator: Any) -> None: ...
    def resume(self) -> None: ...
    def destroy(self) -> None: ...


def flash_attention(query, key, value, starts_q, starts_k, *_: Any, softmax_scale: float, **__: Any):
    """What the GPU kernel computes: each segment sees its path, and the path's last rows causally."""
    parts = []
    for a, b, c, d in zip(starts_q[:-1], starts_q[1:], starts_k[:-1], starts_k[1:], strict=True):
        mask = torch.ones(b - a, d - c, dtype=torch.bool).tril(int((d - c) - (b - a)))
        q, k, v = query[a:b].transpose(0, 1), key[c:d].transpose(0, 1), value[c:d].transpose(0, 1)
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=softmax_scale)
        parts.append(found.transpose(0, 1))
    return torch.cat(parts)


KERNELS = SimpleNamespace(flash_attn_varlen_func=flash_attention)


class Diary(AsyncCurriculumGRPOTrainer):
    """Keeps the advantages that the loss gets."""

    advantages: frozenset[float] = frozenset()

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        given = inputs["advantages"][inputs["token_index"] >= 0]
        self.advantages |= {round(float(one), 4) for one in given}
        return super().compute_loss(model, inputs, *arguments, **options)


def build_chat_tokenizer() -> PreTrainedTokenizerFast:
    """The lab's tokenizer, which TRL is told how to read messages of."""
    tokenizer = build_tokenizer()
    tokenizer.response_template = {"defaults": {"role": "assistant"}, "fields": {"content": {}}}
    return tokenizer


def save_model(folder: Path) -> str:
    """A model's folder."""
    torch.manual_seed(0)
    tokenizer = build_chat_tokenizer()
    for part in (build_model(tokenizer, width=32, layers=1), tokenizer):
        part.save_pretrained(folder / "model")
    return str(folder / "model")


OPTIONS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 4,
    "max_inflight_tasks": 16, "max_staleness": 100, "learning_rate": 1e-3, "logging_steps": 1,
    "heartbeat_stale_after_s": 3600.0,
    "save_steps": 2, "use_cpu": True, "bf16": False, "dtype": "float32", "disable_tqdm": True,
    "report_to": "none", "dataloader_pin_memory": False,
}  # fmt: skip
"""Steps of two groups of four."""


def without_gpu(replace: Callable[[Any, str, Any], None]) -> None:
    """vLLM, NCCL and the GPU's attention are not here: a server and PyTorch take their place."""
    replace(async_rollout_worker, "is_vllm_available", lambda: True)
    replace(packing, "_flash_attn", lambda: KERNELS)
    replace(async_grpo_trainer, "WeightTransferClient", lambda **_: NoTransfer())
    replace(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)


def train_alone(folder: Path, vllm: str, served: tuple[str, str]) -> None:
    """Train until the process is killed."""
    without_gpu(setattr)
    trainer(folder, vllm, served, max_steps=1_000_000).train()


def no_reward(completions: list[Any], **_: Any) -> list[None]:
    """Cannot score anything."""
    return [None] * len(completions)


def trainer(
    folder: Path,
    vllm: str,
    served: tuple[str, str],
    data: Dataset | None = None,
    reward: Any = correct,
    **options: Any,
) -> Diary:
    config = AsyncGRPOConfig(
        str(folder / "run"), vllm_server_base_url=vllm, token_budget=0, **OPTIONS, **options
    )
    return Diary(
        save_model(folder), reward, config, data or dataset(),
        weight_transfer=NoTransfer(), served=served,
    )  # fmt: skip
