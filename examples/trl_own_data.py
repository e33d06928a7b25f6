"""A whole TRL script with data of one's own; docs/trl.md explains it part by part.

It reads two JSONL files, scores with two reward functions of its own, evaluates on held-out problems, gates
and allocates groups, keeps rollouts to be read, saves checkpoints and resumes. Without --data it first writes
files as a user would have them: problems of the lab, and a small model that knows a little of them.

    python examples/trl_own_data.py                              # 60 steps, about two minutes on one core
    python examples/trl_own_data.py --resume --max-steps 90      # goes on after the last checkpoint
    python examples/trl_own_data.py --lora --output-dir runs/lora
    python examples/trl_own_data.py --curriculum metis:template=lab,max_tokens=12 --output-dir runs/metis
    curro watch runs/own-data                                    # meanwhile, in another terminal
"""

import argparse
import json
from pathlib import Path

import torch
from peft import LoraConfig
from trl import GRPOConfig

from curro import lab
from curro.data import load_prompts
from curro.hosts.trl import CurriculumGRPOTrainer, FillSettings, KeepRollouts

parser = argparse.ArgumentParser()
parser.add_argument("--data", help="JSONL with a prompt and an answer in each line")
parser.add_argument("--eval-data", help="the same, held out")
parser.add_argument("--model", help="a folder or a hub id")
parser.add_argument("--curriculum", default="frontier")
parser.add_argument("--lora", action="store_true")
parser.add_argument("--vllm", action="store_true")
parser.add_argument("--resume", action="store_true")
parser.add_argument("--max-steps", type=int, default=60)
parser.add_argument("--output-dir", default="runs/own-data")
options = parser.parse_args()
if options.data is not None and not (options.eval_data and options.model):
    parser.error("--data needs --eval-data and --model beside it")


def write_own_files(folder: Path) -> None:
    """Write what a user would bring: problems, held-out problems and a model."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, split, count in (("problems", "train", 400), ("held-out", "test", 16)):
        rows = load_prompts("lab:chains_judge/easy", split=split, limit=count).rows
        lines = [json.dumps({"prompt": row["prompt"], "answer": row["answer"]}) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    for part in lab.load("chains_judge"):
        part.save_pretrained(folder / "model")


if options.data is None:
    own = Path("runs/own-files")
    write_own_files(own)
    options.data, options.eval_data = str(own / "problems.jsonl"), str(own / "held-out.jsonl")
    options.model = str(own / "model")


def solved(completions: list[str], answer: list[str], **_: object) -> list[float]:
    """1 where the completion is the answer."""
    return [float(text.strip() == right) for text, right in zip(completions, answer, strict=True)]


def brief(completion_ids: list[list[int]], **_: object) -> list[float]:
    """1 for an empty completion, 0 for one of 16 tokens."""
    return [1 - len(ids) / 16 for ids in completion_ids]


config = GRPOConfig(
    output_dir=options.output_dir,
    max_steps=options.max_steps,
    per_device_train_batch_size=32,
    num_generations=8,
    reward_weights=[1.0, 0.1],
    max_completion_length=16,
    loss_type="dr_grpo",
    scale_rewards="none",
    learning_rate=3e-3 if options.lora else 3e-4,
    use_vllm=options.vllm,
    vllm_mode="colocate",
    eval_strategy="steps",
    eval_steps=10,
    eval_on_start=True,
    save_strategy="steps",
    save_steps=10,
    save_total_limit=2,
    logging_steps=10,
    report_to=[],
    use_cpu=not torch.cuda.is_available(),
    bf16=torch.cuda.is_available(),
)
trainer = CurriculumGRPOTrainer(
    model=options.model,
    reward_funcs=[solved, brief],
    train_dataset=load_prompts(options.data).to_hf(),
    eval_dataset=load_prompts(options.eval_data).to_hf(),
    curriculum=options.curriculum,
    signal="solved",
    admission="signal",
    allocation="knapsack",
    advantage="leave-one-out",
    fill=FillSettings(limit=4),
    keep=KeepRollouts(4),
    peft_config=LoraConfig(r=8, target_modules="all-linear") if options.lora else None,
    args=config,
)
trainer.train(resume_from_checkpoint=options.resume)
trainer.save_model(f"{options.output_dir}/final")
