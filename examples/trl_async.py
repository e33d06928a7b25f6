"""TRL's asynchronous trainer with a curriculum: rollouts and updates at the same time, on a server of vLLM.

The data has the columns `prompt` (messages) and `answer`; the same file stands in serve.toml.

    VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen3-0.6B --weight-transfer-config '{"backend": "nccl"}' &
    curro serve serve.toml --port 8377 &
    python examples/trl_async.py Qwen/Qwen3-0.6B train.parquet http://127.0.0.1:8377 service/token \
        --output_dir runs/trl-async --max_steps 100
"""

import argparse
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import HfArgumentParser
from trl.experimental.async_grpo import AsyncGRPOConfig

from curro.contrib.trl_async import AsyncCurriculumGRPOTrainer


def correct(completions: list[list[dict[str, Any]]], answer: list[str], **_: Any) -> list[float]:
    """Called in the process of the rollouts, so it stands at the top of a module."""
    texts = [messages[-1]["content"] for messages in completions]
    return [float(right in text) for text, right in zip(texts, answer, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "data", "address", "token"):
        parser.add_argument(name)
    options, rest = parser.parse_known_args()
    (config,) = HfArgumentParser(AsyncGRPOConfig).parse_args_into_dataclasses(rest)
    AsyncCurriculumGRPOTrainer(
        options.model,
        correct,
        config,
        Dataset.from_parquet(options.data),
        served=(options.address, Path(options.token).read_text().strip()),
    ).train()


if __name__ == "__main__":
    main()
