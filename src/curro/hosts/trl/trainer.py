"""A GRPOTrainer that rolls out the prompts a curriculum chooses, with no lag between rewards and choice."""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer

from curro.core.admission import Gate
from curro.core.advantage import Advantage
from curro.core.allocation import Allocation
from curro.core.configuration import describe_signal
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.groups import Feedback, MissingRewards
from curro.core.policy import AuxiliarySamples, PolicyUse
from curro.core.selection import Selection
from curro.core.verdicts import Draw, Verdict
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.auxiliary import auxiliary_loss, loss_divisor, share_out
from curro.hosts.trl.batches import (
    LOGGED_METRICS,
    GeneratedRollouts,
    KeptGroup,
    OutputRows,
    TRLMetrics,
    captured_logs,
    check_mergeable,
    count_tokens,
    cut,
    describe_batch,
    describe_rewards,
    fitted,
    log_batch,
    log_metrics,
    mask_of_trl_advantages,
    merge_rows,
    output_rows,
    replace_latest,
)
from curro.hosts.trl.callbacks import EmptySteps, ResumedLines, ScaledRate
from curro.hosts.trl.checks import (
    build_curriculum,
    check_admission,
    check_allocation,
    check_arguments,
    check_batch,
    check_rewards,
    check_rows,
    model_name,
    placeholder_rows,
    reward_names,
    rows_of,
)
from curro.hosts.trl.episodes import EpisodeRollouts
from curro.hosts.trl.fast.accelerated import AcceleratedGRPOTrainer
from curro.hosts.trl.notices import Notices
from curro.hosts.trl.observe import GroupRecord, read_feedback, scores_of
from curro.hosts.trl.policy import TrainedPolicy
from curro.hosts.trl.processes import MainProcess, own_share
from curro.hosts.trl.rounds import fill_in_rounds
from curro.hosts.trl.seams import (
    ACCELERATIONS,
    SECOND_LOSS,
    check_contract,
    end_tokens,
    single_completions,
    unaccelerated,
)
from curro.reward.adapters import completion_text, trl_reward
from curro.reward.environments.environment import Environment, episode_reward
from curro.rollout.fill import Fill, sized
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import Completion, KeepRollouts, RunWriter


class CurriculumGRPOTrainer(AcceleratedGRPOTrainer):
    """TRL's GRPOTrainer with a curriculum; everything else is TRL's.

    The prompts of a generation are chosen when it starts, after the rewards of the one before, so the
    data loader's order does not matter and there is no lag. The main process owns the curriculum and
    tells the others what it chose. Evaluation is TRL's, untouched. Checkpoints hold the curriculum and,
    where one falls between a generation and its last update, the rollouts that are left, so that a resumed
    run goes on as an uninterrupted one.

    The signal decides informativeness: the sum of the weighted rewards, unless a `signal` is named or a
    function has a verifier's name. The reward functions' own values reach the curriculum as named rewards,
    under the functions' names; a rollout for which every reward function returned None is not scored.
    Without an `advantage` in the curriculum the advantages are TRL's.

    A curriculum that asks the policy something (METIS) is lent it, and what it wants trained on besides the
    rollouts joins the loss of the same optimizer steps, whatever the `loss_type`.

    Args:
        curriculum: a `Curriculum` over the rows of `train_dataset`; or a selection method's name, dict or
            `Selection`, or text as `curro train --curriculum` takes it ("uniform admission=band:0.2,0.8"),
            from which one is built with `args.seed`.
        allocation, advantage, admission, reward_range, signal: of the curriculum that is built, as
            `Curriculum` takes them. With an admission, each generation goes on until its batch is full of
            admitted groups; rejected groups are observed, and appear in the metrics `fill/...` alone.
        fill: when filling a batch gives up, and what happens then, "top-up" or "error".
        environment: plays every rollout, of evaluations too, as an episode of several turns, and scores it,
            unless reward functions are given, which find its reward in the column `episode_reward`. TRL's
            own `environment_factory` and `tools` are taken in its place.
        on_groups: called on the main process with every `GroupRecord`, rejected groups included.
        write_run: write groups and metrics to the folder `curro` in `args.output_dir`, for `curro watch`.
        keep: how many rollouts of each group are kept there to be read.
        share_prompts: compute a group's prompt once, when it is rolled out and when it is trained on, which
            changes nothing but rounding. For a model that cannot, TRL's way is taken, and the log says why.
        skip_empty_steps: make no update where every gradient is zero, because all groups of the step are
            flat. AdamW would still move the weights by its memory of earlier steps, and forget them.
        scale_rate: divide the learning rate by the square root of `signal/ratio` while that is above 1, as
            section 4.3 of the prioritized-replay paper suggests. The ratio is NaN where it is unknown: then
            the rate stays. TRL logs the factor as `rate_scale`. The ratio is of advantages r - mean r: with
            others, as those of `scale_rewards="group"`, the rate falls too far.
        log_all_metrics: let TRL log all of `Curriculum.metrics()` and `fill/...`, and not only those of
            `curro.hosts.trl.batches.LOGGED_METRICS`; the run folder has them all.
        no_check: leave out the check of 200 rows with the reward functions, which refuses or says what does
            not fit before the model is loaded.
        args, kwargs: as GRPOTrainer takes them; `train_dataset` is a `datasets.Dataset`.

    Attributes:
        curriculum: the main process's knows all rewards; those of other processes are never asked.
        policy: what the curriculum asks.
        environment: as given.
        rows: the rows of the data set that this process is rolling out, one a rollout.

    Raises:
        ConfigError: a dataset without length, one smaller than a batch, a curriculum over another number
            of prompts, a batch that cannot be filled, or two things that play the rollouts.
        FillError: while training, a batch that stayed short, where `fill` says that this is an error.
    """

    args: GRPOConfig
    train_dataset: Dataset
    num_generations: int
    max_completion_length: int
    rows: list[dict[str, Any]]
    main_process: MainProcess
    fill: Fill[KeptGroup]
    _tokenizer: Any
    _buffered_inputs: list[dict[str, torch.Tensor]] | None
    _logs: dict[str, Any]
    _rewards: torch.Tensor
    _completions: list[Completion]
    _round_metrics: TRLMetrics

    # ------------------------------ construction ------------------------------

    def __init__(
        self,
        *args: Any,
        curriculum: Curriculum | Selection | str | Mapping[str, Any],
        allocation: Allocation | str | Mapping[str, Any] | None = None,
        advantage: Advantage | str | Mapping[str, Any] | None = None,
        admission: Gate | str | Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        signal: str | Sequence[str] | None = None,
        fill: FillSettings = FillSettings(),  # noqa: B008 - frozen
        environment: Environment | None = None,
        on_groups: Callable[[GroupRecord], None] | None = None,
        write_run: bool = True,
        keep: KeepRollouts = KeepRollouts(),  # noqa: B008 - frozen
        share_prompts: bool = True,
        skip_empty_steps: bool = False,
        scale_rate: bool = False,
        log_all_metrics: bool = False,
        no_check: bool = False,
        **kwargs: Any,
    ) -> None:
        given = inspect.signature(GRPOTrainer).bind_partial(*args, **kwargs).arguments
        if environment is not None:
            for other in ("rollout_func", "environment_factory", "tools"):
                if given.get(other):
                    raise ConfigError(f"an environment plays the rollouts: give it or {other}, not both")
            given.setdefault("reward_funcs", trl_reward(episode_reward("environment")))
        lost = check_contract(GRPOTrainer)
        options = given["args"] = given.get("args") or GRPOConfig(f"{model_name(given.get('model'))}-GRPO")
        factory = given.get("environment_factory")
        if given.get("train_dataset") is None and callable(factory) and options.max_steps > 0:
            given["train_dataset"] = placeholder_rows(options)
        dataset = given.get("train_dataset")
        check_arguments(
            options, dataset, keep=keep, fill=fill, on_groups=on_groups, is_played=factory is not None
        )
        rows = rows_of(cast(Dataset, dataset))
        parts = {
            "allocation": allocation, "advantage": advantage, "admission": admission,
            "reward_range": reward_range, "signal": signal,
        }  # fmt: skip
        curriculum = build_curriculum(curriculum, parts, rows, options.seed)
        curriculum.check_rows(rows, "train_dataset")
        names = reward_names(given.get("reward_funcs"), factory)
        warning = "" if names is None else check_rewards(curriculum, options, names)
        self._batch_prompts = check_batch(options, len(rows))
        of_rows: list[str] = []
        if not no_check and environment is None and factory is None:
            check_rows(given.get("reward_funcs"), options, dataset, of_rows.append)
        if curriculum.has_admission:
            columns = cast(Dataset, dataset).column_names
            check_admission(curriculum, options, columns, fill.when_short, options.world_size)
        if curriculum.has_allocation:
            check_allocation(curriculum, options)
        if (skip_empty_steps or scale_rate) and (options.deepspeed or options.deepspeed_plugin):
            option = "skip_empty_steps" if skip_empty_steps else "scale_rate"
            raise ConfigError(f"DeepSpeed makes its updates itself: leave out {option}")
        if SECOND_LOSS in lost and PolicyUse.TRAINED in curriculum.selection.policy_use:
            raise ConfigError(f"{lost[SECOND_LOSS]}, on which {SECOND_LOSS} stand: choose another method")
        self.curriculum = curriculum
        self._merges_rounds = self._needs_rounds

        lacks = unaccelerated(GRPOTrainer, options, lost)
        super().__init__(share_prompts=share_prompts, lacks=lacks, **given)
        for name in ("_metrics", "_logs"):
            if not hasattr(self, name):  # a newer TRL has renamed what is logged, which changes nothing else
                setattr(self, name, defaultdict(lambda: defaultdict(list)))
        if names is None:
            warning = check_rewards(curriculum, options, self.reward_func_names)
        if environment is not None:
            self.rollout_func = cast(Any, EpisodeRollouts(environment, lambda: self.rows))
        self.environment = environment
        self.main_process = MainProcess(
            self.accelerator,
            model=lambda: self.model_wrapped,
            is_split=lambda: self.is_fsdp_enabled or self.is_deepspeed_enabled,
        )
        self.fill: Fill[KeptGroup] = Fill(
            fill, size=curriculum.table.size, may_repeat=curriculum.selection.repeats, weigh=len,
            unit="rollouts",
        )  # fmt: skip
        self._log_all_metrics = log_all_metrics
        self._fill_metrics: dict[str, float] = {}
        self._held_out: list[Feedback] = []
        self._auxiliary: list[AuxiliarySamples] = []
        self._missing_rewards = MissingRewards()
        self._listeners = [on_groups] if on_groups is not None else []
        self._writer: RunWriter | None = None
        signal_names = curriculum.default_signal(self.reward_func_names)
        self._notices: Notices | None = None
        if self.main_process.is_main:
            if write_run:
                writer = RunWriter.of_host(Path(cast(str, options.output_dir)), curriculum, keep)
                self._listeners.append(lambda record: record.write_to(writer))
                self._writer = writer
                self.add_callback(ResumedLines(writer))
            self._notices = Notices(
                curriculum, self.reward_func_names, self.reward_weights.tolist(),
                watches_parts=not curriculum.signal_parts and curriculum.config.get("signal") is None,
                writer=self._writer,
            )  # fmt: skip
            sentences = [describe_signal(signal_names)] if signal_names else []
            sentences += [warning] if warning else []
            sentences += of_rows
            if options.shuffle_dataset is False:
                sentences.append("shuffle_dataset=False has no effect: the curriculum chooses the prompts")
            sentences += [
                f"{reason}: without {what}" for what, reason in lost.items() if what != ACCELERATIONS
            ]
            for sentence in sentences:
                self._notices.say(sentence, sentence)
            self._notices.at_start(
                steps=max(options.max_steps, 0) // self.num_iterations, group=self.num_generations,
                batch=self._batch_prompts,
            )  # fmt: skip
        if skip_empty_steps:
            self.add_callback(EmptySteps(self))
        if scale_rate:
            self.add_callback(ScaledRate(self))
        self.policy = TrainedPolicy(self)
        if self.main_process.is_main:
            curriculum.attach(self.policy)

    @property
    def _batch_rows(self) -> int:
        """Rollouts of a generation, of all processes."""
        return cast(int, self.args.generation_batch_size)

    @property
    def _is_training(self) -> bool:
        return cast(Any, self.model).training

    @property
    def _needs_rounds(self) -> bool:
        """Whether a generation may go on: groups are rejected and replaced, or have sizes of their own."""
        return self.curriculum.has_admission or not self.curriculum.allocation.needs_budget

    # ------------------------------ a generation ------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's, of the prompts that the curriculum chooses in place of `inputs`; evaluation keeps them."""
        if not self._is_training:
            return self._generate_held_out(inputs)
        self._auxiliary, self.policy.seconds = [], 0.0
        output = self._fill_batch() if self._needs_rounds else self._draw_batch()
        logged = (
            None if self._log_all_metrics else LOGGED_METRICS | self.curriculum.selection.metrics().keys()
        )
        log_metrics(self._metrics["train"], self._fill_metrics, logged)
        if self.main_process.is_main:
            metrics = self.curriculum.metrics()
            log_metrics(self._metrics["train"], metrics, logged, prefix="curriculum/")
            if self._writer is not None:
                self._writer.step(self.state.global_step + 1, metrics | self.generation_metrics())
            if self._notices is not None:
                length = int(output["prompt_ids"].shape[1])
                self._notices.context(length, self.max_completion_length, cast(Any, self.model).config)
        return output

    def generation_metrics(self) -> dict[str, float]:
        """TRL's numbers of the latest generation's completions, and how its batch was filled."""
        completions = {
            name: values[-1]
            for name, values in self._metrics["train"].items()
            if values and name.startswith("completions/")
        }
        return completions | self._fill_metrics

    # ------------------------------ rolling out ------------------------------

    def _draw_batch(self) -> dict[str, Any]:
        """Roll out one draw and train on it whatever its rewards."""
        step = self.state.global_step
        budget = self._batch_rows if self.curriculum.has_allocation else None
        draw = self.main_process.decide(
            lambda: sized(
                self.curriculum.select(self._batch_prompts, step=step, rollouts=budget), self.num_generations
            )
        )
        try:
            generated = self._roll_out(draw)
        except BaseException:
            if self.main_process.is_main:
                self.curriculum.drop(draw.tickets)
            raise
        output = generated.output
        verdict, feedback = self.observe_groups(draw, generated)
        if budget is not None:
            self._replace_statistics(generated.rewards, feedback)
        logged = self._credit(output, [verdict], draw.rollouts, [*self._logs["advantages"]])
        replace_latest(self._logs["advantages"], logged)
        return output

    def _roll_out(self, draw: Draw) -> GeneratedRollouts:
        """Generate and score the rollouts of a draw; every process has an equal share of them."""
        prompts = np.repeat(draw.prompts, draw.rollouts).tolist()
        mine = own_share(self.accelerator, prompts)
        row_of = {prompt: self.train_dataset[prompt] for prompt in dict.fromkeys(mine)}
        self.rows = [dict(row_of[prompt]) for prompt in mine]
        usual = self.num_generations
        if self.curriculum.has_allocation:
            self.num_generations = len(prompts)  # TRL's groups have one size; nothing of them is used
        try:
            output = super()._generate_and_score_completions(self.rows)
        finally:
            self.num_generations = usual
        if len(self._rewards) != len(prompts) or "advantages" not in output:
            raise ConfigError(
                f"TRL gave {len(self._rewards)} rewards for {len(prompts)} rollouts, or no advantages: it has"
                " changed what a curriculum stands on"
            )
        return GeneratedRollouts(output, self._rewards, gather_object(self._completions))

    def roll_out_round(self, draw: Draw) -> GeneratedRollouts:
        """Roll out one of several draws of a batch, with the rows of all processes and what TRL logged."""
        with captured_logs(self._metrics, self._logs) as (metrics, logs):
            generated = self._roll_out(draw)
        check_mergeable(generated.output)
        for name, values in metrics.items():
            self._round_metrics[name] += values
        lengths = [completion.tokens for completion in self._completions]
        rows = gather_object([output_rows(generated.output, lengths)])
        return replace(generated, rows=rows, logs=logs)

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, multimodal_fields: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """TRL's. Of groups of different sizes, a vLLM server is asked for each rollout by itself."""
        if not (self.curriculum.has_allocation and self._is_training):
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, *args, **kwargs)
        with single_completions(self) as number:
            if number and args:
                args = (*number, *args[1:])
            elif number:
                kwargs["num_generations"] = 1
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, *args, **kwargs)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        """TRL's, of all processes; they are kept, and what was generated."""
        self._rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        ends = {*end_tokens(self), self._tokenizer.pad_token_id}
        self._completions = [
            Completion(completion_text(text), len(ids), not ids or ids[-1] not in ends)
            for text, ids in zip(completions, completion_ids_list, strict=True)
        ]
        return self._rewards

    # ------------------------------ observing and crediting ------------------------------

    def _feedback(self, tickets: Sequence[int] | np.ndarray, rewards: torch.Tensor, sizes_P: Any) -> Feedback:
        return read_feedback(
            tickets, rewards, np.asarray(sizes_P), weights=self.reward_weights, names=self.reward_func_names
        )

    def feedback_of(self, draw: Draw, generated: GeneratedRollouts) -> Feedback:
        """Arrange the rewards of a draw's groups as the port takes them."""
        return self._feedback(draw.tickets, generated.rewards, draw.rollouts)

    def observe_groups(self, draw: Draw, generated: GeneratedRollouts) -> tuple[Verdict, Feedback]:
        """Report finished groups to the curriculum on the main process; every process gets the verdict.

        Where the curriculum refuses the rewards, the tickets are dropped.
        """
        feedback = self.feedback_of(draw, generated)
        verdict = self.main_process.decide(lambda: self._judge(draw, feedback, generated.completions))
        if verdict.auxiliary_samples is not None:
            self._auxiliary.append(verdict.auxiliary_samples)
        return verdict, feedback

    def _judge(self, draw: Draw, feedback: Feedback, completions: Sequence[Completion]) -> Verdict:
        """Observe groups and tell the listeners of them; runs on the main process."""
        try:
            verdict = self.curriculum.observe(**feedback.arguments())
        except BaseException:
            self.curriculum.drop(draw.tickets)
            raise
        ends = np.cumsum(draw.rollouts).tolist()
        groups = [completions[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        for listener in self._listeners:
            listener(GroupRecord(self.state.global_step, draw, feedback.rewards, verdict, groups))
        if not self.curriculum.ledger.observed:
            self._missing_rewards.count(feedback, self._batch_prompts)
        has_signal_P = ~self.curriculum.table.is_flat(verdict.informativeness)
        self._metrics["train"]["curriculum/signal_share"].append(float(has_signal_P.mean()))
        if self._notices is not None:
            self._notices.groups(feedback, self.curriculum.selection.metrics())
        return verdict

    def _credit(
        self,
        output: dict[str, Any],
        verdicts: Sequence[Verdict],
        sizes_P: np.ndarray,
        advantages: Sequence[float],
    ) -> list[float]:
        """Put the curriculum's credit into a batch, or multiply TRL's own advantages by it.

        Args:
            output: TRL's, of this process's rows.
            verdicts, sizes_P: verdicts on the P groups of the batch, and the rows of each.
            advantages: TRL's own, of all rows.

        Returns:
            advantages of all rows that are trained on, for the log.
        """
        is_factor = not self.curriculum.has_advantage
        if is_factor:
            normalizes = self.multi_objective_aggregation == "normalize_then_sum"
            verdicts = mask_of_trl_advantages(verdicts, normalizes)
        credit_PG = self.curriculum.credit(verdicts)
        credit = credit_PG[np.arange(credit_PG.shape[1]) < sizes_P[:, None]]
        share = own_share(self.accelerator, torch.from_numpy(credit)).to(output["advantages"])
        output["advantages"] = output["advantages"] * share if is_factor else share
        return (credit * advantages if is_factor else credit).tolist()

    def _replace_statistics(self, rewards: torch.Tensor, feedback: Feedback) -> None:
        """Write the true groups into TRL's metrics, which take every `num_generations` rows for a group."""
        is_flat = self.curriculum.table.is_flat(feedback.variances)
        rewards, weights = rewards.double().cpu(), self.reward_weights.double().cpu()
        for name, value in describe_rewards(rewards, self.reward_func_names, weights, is_flat).items():
            self._metrics["train"][name][-1:] = [value]

    # ------------------------------ filling a batch ------------------------------

    def _fill_batch(self) -> dict[str, Any]:
        """Go on in rounds until the batch is full of admitted groups; every process gets an equal share."""
        self._round_metrics = defaultdict(list)
        try:
            groups = fill_in_rounds(
                self, self._batch_rows, size=self.num_generations, step=self.state.global_step
            )
        finally:
            held = self.fill.release()
            if held:
                self.curriculum.drop(held)
        batch = fitted(groups, self._batch_rows)
        output = self._merge_own_rows([part for group in batch for part in group.rows])
        logged = self._credit(
            output,
            [group.verdict for group in batch],
            np.array(list(map(len, batch))),
            [value for group in batch for value in group.logs.get(("advantages", None), [0.0] * len(group))],
        )
        for group in batch:
            group.logs["advantages", None] = logged[: len(group)]
            logged = logged[len(group) :]
        self._fill_metrics = self.fill.batch_counts.metrics()
        described = describe_batch(
            batch,
            self.reward_func_names,
            self.reward_weights.double().cpu(),
            self.curriculum.table.is_flat(np.array([group.variance for group in batch])),
            pad_token=self._tokenizer.pad_token_id,
            ends=end_tokens(self),
        )
        log_batch(self._metrics["train"], self._logs, self._round_metrics, described, batch)
        return output

    def _merge_own_rows(self, parts: list[OutputRows]) -> dict[str, Any]:
        """Make TRL's output from this process's rows of a batch."""
        accelerator = self.accelerator
        rows, rank = self._batch_rows // accelerator.num_processes, accelerator.process_index
        output = merge_rows(
            cut(parts, rank * rows, (rank + 1) * rows),
            device=accelerator.device,
            pad_token=self._tokenizer.pad_token_id,
            pad_to_multiple_of=cast(Any, self).pad_to_multiple_of,
        )
        output["num_items_in_batch"] = accelerator.gather(count_tokens(output)).sum()
        return output

    # ------------------------------ the loss ------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """TRL's; the generation's auxiliary samples join the rollouts that wait to be trained on."""
        inputs = super()._prepare_inputs(generation_batch)
        if self._is_training and self._auxiliary:
            waiting = self._buffered_inputs or []
            divisor = loss_divisor(
                self.loss_type,
                longest=self.max_completion_length,
                tokens=int(waiting[0]["num_items_in_batch"]),
                rollouts=self._batch_rows,
            )
            share_out(
                waiting,
                self._auxiliary,
                rank=self.accelerator.process_index,
                processes=self.accelerator.num_processes,
                divisor=divisor,
                device=self.accelerator.device,
                pad_token=self._tokenizer.pad_token_id,
            )
            self._auxiliary = []
        if self.policy.seconds:
            self._metrics["train"]["judge/seconds"].append(self.policy.seconds)
            self.policy.seconds = 0.0
        return inputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss and, in the first pass over a generation, that of the auxiliary samples.

        METIS (9) has no ratio that would correct for an older policy, so with `num_iterations` > 1 they are
        trained on once. "judge/loss" in the log is (9) itself.
        """
        loss = super()._compute_loss(model, inputs)
        parts = cast(int, self.args.steps_per_generation)
        is_first_pass = self._step % (parts * self.num_iterations) < parts
        if not (self._is_training and "auxiliary_advantages" in inputs and is_first_pass):
            return loss

        def log_probs(ids: torch.Tensor, mask: torch.Tensor, last: int) -> torch.Tensor:
            size = self.args.per_device_train_batch_size
            return self._get_per_token_logps_and_entropies(model, ids, mask, last, batch_size=size)[0]

        weighted, plain = auxiliary_loss(inputs, log_probs)
        self._metrics["train"]["judge/loss"].append(self.accelerator.gather(plain).mean().item())
        return loss + weighted / self.current_gradient_accumulation_steps

    # ------------------------------ checkpoints ------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's; at the end the run folder gets the prompt table, and a line says where the folder is.

        Args:
            resume_from_checkpoint: True resumes from the last checkpoint that was saved whole.
        """
        output_dir = Path(cast(str, self.args.output_dir))
        resumed = checkpoints.to_resume(resume_from_checkpoint, output_dir)
        if not resumed and self.accelerator.is_main_process:
            checkpoints.warn_of_earlier(output_dir)
        output = super().train(resumed, *args, **kwargs)
        if self._writer is not None:
            self._writer.write_table()
            print(f"the run is in {self._writer.folder.path}: curro watch {self.args.output_dir}", flush=True)
        return output

    def save_checkpoint(self) -> None:
        """Save a checkpoint of the last finished step, for use between steps and after errors.

        Parts of the next step that were computed before an error are computed again.
        """
        self._save_checkpoint(self.model, None)

    def restore(self, checkpoint: Path) -> None:
        """Load the model and the curriculum of a checkpoint, to use them without more training."""
        self._load_from_checkpoint(str(checkpoint))
        with checkpoints.reading(checkpoint):
            self._load_curriculum(checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        checkpoint = Path(self._get_output_dir(trial=trial)) / folder
        checkpoints.clear(checkpoint, self.accelerator)
        rollouts = None
        generation = cast(int, self.args.steps_per_generation) * self.num_iterations
        finished = self._step - self._step % self.args.gradient_accumulation_steps
        if finished % generation and self._buffered_inputs is not None:
            rollouts = checkpoints.WaitingRollouts(finished, self._buffered_inputs)
        with checkpoints.saving(checkpoint):
            super()._save_checkpoint(model, trial)
            checkpoints.save(checkpoint, self.accelerator, self.curriculum, rollouts)
            if self._writer is not None:
                self._writer.write_table()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with checkpoints.reading(Path(resume_from_checkpoint)):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with checkpoints.reading(Path(checkpoint or "")):
            super()._load_rng_state(checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """TRL's, and the curriculum: this is the last that is loaded before training goes on."""
        if checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        with checkpoints.reading(Path(checkpoint)):
            super()._load_optimizer_and_scheduler(checkpoint)
            self._load_curriculum(Path(checkpoint))

    def _load_curriculum(self, checkpoint: Path) -> None:
        parts = cast(int, self.args.steps_per_generation)
        rollouts = checkpoints.load(
            checkpoint, self.accelerator, self.curriculum, parts=parts,
            rows=self.args.per_device_train_batch_size, updates=self.args.gradient_accumulation_steps,
        )  # fmt: skip
        if rollouts is not None:
            self._step, self._buffered_inputs = rollouts.step, rollouts.parts

    # ------------------------------ evaluation ------------------------------

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """TRL's; once training has begun, its rewards also reach the run folder, as pass@k."""
        begun, self._held_out = time.perf_counter(), []
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        groups, self._held_out = self._held_out, []
        if groups and self._writer is not None and (self.is_in_train or self._writer.has_begun):
            rows = self.eval_dataset if eval_dataset is None else eval_dataset
            rows = cast(Any, self.eval_dataset)[rows] if isinstance(rows, str) else rows
            # to give every process as many prompts, the data loader begins anew after the last one
            prompts = len(rows) if isinstance(rows, Dataset) else None
            scores = scores_of(groups, prompts, self.curriculum)
            name = metric_key_prefix.replace("eval_", "eval/", 1)  # TRL's of one of several data sets
            named = {key.replace("eval", name, 1): value for key, value in scores.items()}
            self._writer.evaluated(self.state.global_step, named, time.perf_counter() - begun)
        return metrics

    def _generate_held_out(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's generation of held-out prompts; their rewards are kept for `evaluate`."""
        self.rows = inputs
        output = super()._generate_and_score_completions(inputs)
        size = cast(Any, self).num_generations_eval
        sizes_P = np.full(len(self._rewards) // size, size)
        self._held_out.append(self._feedback([], self._rewards, sizes_P))
        return output
