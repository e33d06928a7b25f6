"""The first step of difficulty_filtering.sh: supervised training on 64 worked answers, with TRL's SFTTrainer.

python recipes/small/cold_start.py DATA OUT
"""

import sys

import datasets
from trl import SFTConfig, SFTTrainer

from curro.data import load_prompts
from curro.rollout.engines.models import load_model

data, out = sys.argv[1:]
model, tokenizer = load_model(data)
rows = [{"prompt": row["prompt"], "completion": row["answer"]} for row in load_prompts(data, limit=64)]
trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=datasets.Dataset.from_list(rows),
    args=SFTConfig(
        output_dir=out,
        per_device_train_batch_size=16,
        num_train_epochs=1,
        learning_rate=1e-4,
        lr_scheduler_type="cosine",
        warmup_steps=1,
        bf16=False,
        dataloader_pin_memory=False,
        save_strategy="no",
        report_to="none",
    ),
)
trainer.train()
trainer.save_model(out)
tokenizer.save_pretrained(out)
