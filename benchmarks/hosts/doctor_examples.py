"""Logs of the formats that `curro doctor` reads, written by TRL, wandb, trackio and verl themselves.

    python -m benchmarks.hosts.doctor_examples trl FOLDER     # TRL's own, wandb's and trackio's
    python -m benchmarks.hosts.doctor_examples verl FOLDER    # the same rollouts, dumped by verl

The first needs TRL, wandb and trackio, and trains a small model of the lab to spell words backward with TRL's
own GRPO, without curro, for a few minutes on a core; the second needs verl.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

STEPS, PROMPTS, GROUP, ROWS = 60, 8, 8, 160


def trl(folder: Path) -> None:
    """Train with TRL, and export what trackio keeps."""
    os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "TRACKIO_DIR": str(folder / "trackio")}
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from curro.data import load_prompts
    from curro.lab.model import load

    model, tokenizer = load("spell_backward")
    rows = load_prompts("lab:spell_backward").rows[:ROWS]

    def correct(completions: list[str], answer: list[str], **_: object) -> list[float]:
        return [float(text.strip() == right) for text, right in zip(completions, answer, strict=True)]

    def short(completions: list[str], **_: object) -> list[float]:
        return [0.1 / (1 + len(text)) for text in completions]

    config = GRPOConfig(
        output_dir=str(folder / "trl"), per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
        max_completion_length=16, max_steps=STEPS, learning_rate=3e-4, logging_steps=1, save_strategy="no",
        log_completions=True, num_completions_to_print=0, report_to=["wandb", "trackio"], use_cpu=True,
        bf16=False, disable_tqdm=True, project="doctor", run_name="words", seed=0,
    )  # fmt: skip
    data = Dataset.from_list([{"prompt": row["prompt"], "answer": row["answer"]} for row in rows])
    trainer = GRPOTrainer(model, [correct, short], config, data, processing_class=tokenizer)
    trainer.train()
    trainer.save_state()


def verl(folder: Path) -> None:
    """Dump TRL's rollouts as verl dumps its own."""
    import pyarrow.parquet as pq
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    for file in sorted((folder / "trl" / "completions").glob("*.parquet")):
        rows = pq.read_table(file).to_pydict()
        scores, answers = rows["correct"], [""] * len(rows["correct"])
        rollouts = rows["prompt"], rows["completion"], answers, scores, {"acc": scores}
        RayPPOTrainer._write_generations(*rollouts, folder / "verl", rows["step"][0])


if __name__ == "__main__":
    {"trl": trl, "verl": verl}[sys.argv[1]](Path(sys.argv[2]).absolute())
