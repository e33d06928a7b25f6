"""`curro sft`: supervised training on worked answers, before reinforcement learning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from curro.cli.options import option_values, with_settings
from curro.cli.terminal import folder_name, plain_console, progress_bar, quiet
from curro.training.settings import TrainSettings

SHARED = (
    *("data", "limit", "model", "lora_rank", "device_batch"),
    *("prompt_column", "key_column", "threads", "seed"),
)
"""Settings of `curro train` that supervised training has too."""


@with_settings(*SHARED)
def sft(
    answer_column: Annotated[
        str | None,
        typer.Option(
            help="The column of the worked answers. [default: solution, response, completion or the answer's]"
        ),
    ] = None,
    epochs: Annotated[float, typer.Option(help="How often to pass over the data.")] = 1.0,
    batch: Annotated[int, typer.Option(min=1, help="How many examples form a step.")] = 16,
    learning_rate: Annotated[
        float, typer.Option(help="The learning rate of AdamW, which falls to 0 along a cosine.")
    ] = 1e-5,
    max_length: Annotated[
        int, typer.Option(min=2, help="The most tokens of an example; longer ones are cut.")
    ] = 4096,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The trained model's folder. [default: runs/DATA-sft/model]"),
    ] = None,
    **options: Any,
) -> None:
    """Train a model on worked answers.

    Only the tokens of the answers count in the loss. Other commands take the folder as --model; LoRA matrices
    are merged into the saved model.
    """
    quiet()
    asked = TrainSettings(**option_values(options))
    asked.check_model()
    from curro.training.plan import check_names

    check_names(asked)
    from curro.training.sft import SFTSettings, train_on_answers

    settings = SFTSettings(answer_column, epochs, batch, learning_rate, max_length)
    folder = out or Path("runs") / f"{folder_name(asked.data)}-sft" / "model"
    console = plain_console()
    with progress_bar(console) as bar:
        task = bar.add_task("training", total=None, latest="")

        def on_step(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, latest=f"loss {loss:.3f}")

        train_on_answers(asked, settings, folder, on_step)
    console.print(f"done: the model is in {folder}")
