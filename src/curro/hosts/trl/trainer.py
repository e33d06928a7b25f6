"""A GRPOTrainer that rolls out the prompts a curriculum chooses, with no lag between rewards and choice."""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer

from curro.core.bases import Advantage, Allocation, Gate, Selection
from curro.core.configuration import describe_signal
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.groups import Feedback, MissingRewards
from curro.core.identity import repeated_rows
from curro.core.policy import AuxiliarySamples, PolicyUse
from curro.core.verdicts import Credited, Draw, Verdict
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl import checks, seams
from curro.hosts.trl.auxiliary import EmptySteps, ScaledRate, auxiliary_loss, loss_divisor, share_out
from curro.hosts.trl.episodes import play_episodes
from curro.hosts.trl.fast.accelerated import AcceleratedGRPOTrainer
from curro.hosts.trl.notices import Notices
from curro.hosts.trl.observe import (
    LOGGED_METRICS,
    GroupRecord,
    by_group,
    log_metrics,
    read_feedback,
    scores_of,
)
from curro.hosts.trl.policy import TrainedPolicy
from curro.hosts.trl.processes import MainProcess, own_share
from curro.hosts.trl.rounds import KeptGroup, RoundEnd, ScoredRow, fill_in_rounds, rewards_of
from curro.hosts.trl.seams import end_tokens, replaced
from curro.reward.adapters import completion_text, trl_reward
from curro.reward.environments.environment import Environment, checked, episode_reward
from curro.rollout.engines.models import LEAST_LORA_RATE, LORA_RATE
from curro.rollout.fill import Fill, release, sized
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import Completion, KeepRollouts, RunWriter


class CurriculumGRPOTrainer(AcceleratedGRPOTrainer):
    """TRL's GRPOTrainer with a curriculum; everything else is TRL's.

    The prompts of a generation are chosen when it starts, after the rewards of the one before. The main
    process owns the curriculum and tells the others what it chose. Evaluation is TRL's. Checkpoints hold the
    curriculum and the rollouts that are still to be trained on, so that a resumed run goes on as an
    uninterrupted one.

    The curriculum sees the sum of the weighted rewards, and each function's own values as named rewards. A
    rollout for which every function returned None is not scored. Without an `advantage` in the curriculum
    the advantages are TRL's. What a method wants trained on besides the rollouts (METIS) joins the loss of
    the same optimizer steps, whatever the `loss_type`.

    Args:
        curriculum: a `Curriculum` over the rows of `train_dataset`; or a selection method's name, dict or
            `Selection`, or text as `curro train --curriculum` takes it ("uniform admission=band:0.2,0.8"),
            from which one is built with `args.seed`.
        allocation, advantage, admission, reward_range, signal: of the curriculum that is built, as
            `Curriculum` takes them.
        fill: when filling a batch with admitted groups gives up, and what happens then, "top-up" or "error".
        environment: plays every rollout, of evaluations too, as an episode of several turns, and scores it,
            unless reward functions are given, which find its reward in the column `episode_reward`. TRL's
            own `environment_factory` and `tools` are taken in its place.
        on_groups: called on the main process with every `GroupRecord`, rejected groups included.
        write_run: write groups and metrics to the folder `curro` in `args.output_dir`, for `curro watch`.
        keep: how many rollouts of each group are kept there to be read.
        share_prompts: compute a group's prompt once, in rollouts and in training; for a model that cannot,
            the log says why.
        skip_empty_steps: make no update where every gradient is zero, because all groups of the step are
            flat. AdamW would still move the weights by its memory of earlier steps, and forget them.
        scale_rate: divide the learning rate by the square root of `signal/ratio` while that is above 1
            (`curro.hosts.trl.auxiliary.ScaledRate`), for advantages r - mean r.
        log_all_metrics: let TRL log all of `Curriculum.metrics()` and `fill/...`, and not only
            `curro.hosts.trl.observe.LOGGED_METRICS`; the run folder has them all.
        no_check: leave out the check of 200 rows with the reward functions, which refuses or says what does
            not fit before the model is loaded.
        args, kwargs: as GRPOTrainer takes them; `train_dataset` is a `datasets.Dataset`.

    Attributes:
        curriculum: the main process's knows all rewards; the others are never asked.
        policy: what the curriculum asks.
        rows: the rows of the data set that this process is rolling out, one a rollout.

    Raises:
        ConfigError: before a model is loaded, arguments that do not go together.
        FillError: while training, a batch that stayed short, where `fill` says that this is an error.
    """

    args: GRPOConfig
    train_dataset: Dataset
    num_generations: int
    max_completion_length: int
    rows: list[dict[str, Any]]
    _tokenizer: Any
    _buffered_inputs: list[dict[str, torch.Tensor]] | None  # type: ignore[assignment]
    _logs: dict[str, Any]
    _rewards: torch.Tensor
    _completions: list[Completion]
    _round: list[ScoredRow] | None = None
    _batch: list[ScoredRow] | None = None

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
        given = dict(inspect.signature(GRPOTrainer).bind_partial(*args, **kwargs).arguments)
        given |= given.pop("kwargs", {})  # where another library has put a class in TRL's place
        factory = given.get("environment_factory")
        if environment is not None:
            for other in ("rollout_func", "environment_factory", "tools"):
                if given.get(other):
                    raise ConfigError(f"an environment plays the rollouts: give it or {other}, not both")
            checked(environment, f"{environment!r:.50}")
            given.setdefault("reward_funcs", trl_reward(episode_reward("environment")))
        lost = seams.check_contract(GRPOTrainer)
        options = given["args"] = given.get("args") or GRPOConfig(
            f"{checks.model_name(given.get('model'))}-GRPO"
        )
        if given.get("train_dataset") is None and callable(factory) and options.max_steps > 0:
            # as TRL does where environments make the prompts: a row for each group of a batch
            groups = cast(int, options.generation_batch_size) // cast(int, options.num_generations)
            prompts = [[{"role": "user", "content": ""}]] * groups
            given["train_dataset"] = Dataset.from_dict({"prompt": prompts})
        checks.check_kinds(given | {"keep": keep, "fill": fill, "on_groups": on_groups})
        dataset = cast(Dataset, given["train_dataset"])
        parts = {
            "allocation": allocation, "advantage": advantage, "admission": admission,
            "reward_range": reward_range, "signal": signal,
        }  # fmt: skip
        rows = checks.rows_of(dataset, is_played=factory is not None)
        self.curriculum = curriculum = checks.build_curriculum(curriculum, parts, rows, options.seed)
        functions = given["reward_funcs"] = checks.reward_functions(given.get("reward_funcs"), options)
        said: list[str] = []
        group = cast(int, options.num_generations)
        if factory is None:
            said.append(curriculum.check_reward(checks.reward_names(functions), group))
        given["processing_class"] = checks.processing_class(given, options)
        update_option = "skip_empty_steps" if skip_empty_steps else "scale_rate" if scale_rate else None
        checks.check_combinations(given, curriculum, fill.when_short, update_option)
        if factory is None and not no_check:
            said.append(repeated_rows(rows.row_digests))
            if environment is None and not given.get("rollout_func"):
                checks.check_rows(functions, options, dataset, given.get("eval_dataset"), said.append)
        if given.get("peft_config") is not None and options.learning_rate < LEAST_LORA_RATE:
            said.append(LORA_RATE.format(options.learning_rate))
        if options.shuffle_dataset is False:
            said.append("shuffle_dataset=False has no effect: the curriculum chooses the prompts")
        said += [f"{lost[what]}: without {what}" for what in lost.keys() - {seams.ACCELERATIONS}]
        # a generation may go on: groups are rejected and replaced, or have sizes of their own
        self._merges_rounds = curriculum.has_admission or not curriculum.allocation.needs_budget
        policy_use = curriculum.selection.policy_use
        needs = {
            seams.SECOND_LOSS: PolicyUse.TRAINED in policy_use, seams.ROUNDS: self._merges_rounds,
            seams.EPISODES: environment is not None or bool(policy_use),
        }  # fmt: skip
        for what, is_needed in needs.items():
            if is_needed and what in lost:
                raise ConfigError(f"{lost[what]}, on which {what} stand: choose others")

        lacks = seams.unaccelerated(GRPOTrainer, options, lost)
        super().__init__(share_prompts=share_prompts, lacks=lacks, **given)
        for name in ("_metrics", "_logs"):
            if not hasattr(self, name):  # a newer TRL has renamed what is logged, which changes nothing else
                setattr(self, name, defaultdict(lambda: defaultdict(list)))
        if factory is not None:  # an environment's own reward has its class' name, which TRL knows now
            said.append(curriculum.check_reward(self.reward_func_names, group))
        if environment is not None:
            self.rollout_func = cast(Any, play_episodes)
        self.environment = environment
        # a generation of all processes has so many rollouts, in groups of `num_generations`
        self._batch_rows = cast(int, options.generation_batch_size)
        self._batch_prompts = self._batch_rows // group
        # TRL's groups have one size: for it, rollouts of groups of several sizes stand alone, each asked
        # of a vLLM server by itself, and nothing of TRL's advantages is used
        self._trl_groups = {"num_generations": 1} if curriculum.has_allocation else {}
        self.main_process = MainProcess(self)
        self.fill: Fill[KeptGroup] = Fill(fill, size=curriculum.table.size, weigh=len, unit="rollouts")
        self._logged = None if log_all_metrics else LOGGED_METRICS
        self._fill_metrics: dict[str, float] = {}
        self._held_out: list[torch.Tensor] = []
        self._auxiliary: list[AuxiliarySamples] = []
        self._missing_rewards = MissingRewards()
        self._listeners = [on_groups] if on_groups is not None else []
        self._writer: RunWriter | None = None
        self._notices: Notices | None = None
        self.policy = TrainedPolicy(self)
        ranked_by = curriculum.default_signal(self.reward_func_names)
        if self.accelerator.is_main_process:
            curriculum.attach(self.policy)
            if write_run:
                writer = RunWriter.of_host(Path(cast(str, options.output_dir)), curriculum, keep)
                self._listeners.append(lambda record: record.write_to(writer))
                self._writer = writer
            self._notices = Notices(
                curriculum, self.reward_func_names, self.reward_weights.tolist(), writer=self._writer
            )
            for sentence in [describe_signal(ranked_by) if ranked_by else "", *said]:
                self._notices.say(sentence)
            self._notices.visits(max(options.max_steps, 0) // self.num_iterations * self._batch_prompts)
        if skip_empty_steps:
            self.add_callback(EmptySteps(self))
        if scale_rate:
            self.add_callback(ScaledRate(self))

    # ------------------------------ a generation ------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's, of the prompts that the curriculum chooses in place of `inputs`; evaluation keeps them."""
        if not self._is_training:
            self.rows = inputs
            output = super()._generate_and_score_completions(inputs)
            self._held_out.append(self._rewards)
            return output
        curriculum, logged = self.curriculum, self._logged
        self._auxiliary, self.policy.seconds = [], 0.0
        if self.state.max_steps > 0:
            curriculum.expect(self.state.max_steps)
        before = curriculum.ledger.tickets
        try:
            output = self._fill_batch() if self._merges_rounds else self._draw_batch()
        finally:  # drop prompts that came again for a batch, and after an error all that were drawn
            release(curriculum, np.setdiff1d(curriculum.ledger.tickets, before))
        metrics = curriculum.metrics() if self.accelerator.is_main_process else {}
        if logged is not None:
            logged = logged | {f"curriculum/{name}" for name in curriculum.selection.metrics()}
        named = {f"curriculum/{name}": value for name, value in metrics.items()}
        log_metrics(self._metrics["train"], named | self._fill_metrics, logged)
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
        output = self._roll_out(draw)
        if len(self._rewards) != draw.rollouts.sum() or "advantages" not in output:
            raise ConfigError(
                f"TRL gave {len(self._rewards)} rewards for {draw.rollouts.sum()} rollouts, or no "
                "advantages: it has changed what a curriculum stands on"
            )
        feedback = self.feedback(draw.tickets, self._rewards, draw.rollouts)
        verdict = self.observe(draw, feedback, gather_object(self._completions))
        self._credit(output, [verdict], draw.rollouts, feedback.variances)
        return output

    def _roll_out(self, draw: Draw) -> dict[str, Any]:
        """Generate and score the rollouts of a draw; every process has an equal share of them.

        Afterwards `_rewards` holds the rewards of all processes, `_completions` this one's completions.
        """
        prompts = np.repeat(draw.prompts, draw.rollouts).tolist()
        mine = own_share(self.accelerator, prompts)
        row_of = {prompt: self.train_dataset[prompt] for prompt in dict.fromkeys(mine)}
        self.rows = [dict(row_of[prompt]) for prompt in mine]
        with replaced(self, **self._trl_groups):
            return super()._generate_and_score_completions(self.rows)

    def roll_out_round(self, draw: Draw) -> list[ScoredRow]:
        """Roll out one of several draws of a batch: the rollouts of all processes, group after group."""
        self._round = []
        try:
            with suppress(RoundEnd):
                self._roll_out(draw)
            return gather_object(self._round)
        finally:
            self._round = None

    def _generate(self, prompts: list[Any]) -> Any:
        """TRL's. A round ends here with the rewards, before what only rollouts that are trained on need.

        Raises:
            ConfigError: prompts or tools have given images to a round.
        """
        output = super()._generate(prompts)
        if self._round is None and self._batch is None:
            return output
        prompt_ids, completion_ids, mask, messages, logprobs, extra, images, tool_images = output
        if self._batch is not None:
            parsed = [row.message for row in own_share(self.accelerator, self._batch)]
            return prompt_ids, completion_ids, mask, parsed, logprobs, extra, images, tool_images
        if images is not None or any(tool_images or ()):
            raise ConfigError(
                "admission works with text alone, and these rollouts have images: leave the admission out"
            )
        for name, values in extra.items():  # as TRL gives them to reward functions
            for i, row in enumerate(self.rows):
                row[name] = values[i] if isinstance(values, list) else values
        self._calculate_rewards(self.rows, prompts, messages, completion_ids)
        rewards = own_share(self.accelerator, self._rewards.tolist())
        columns = {
            "prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": logprobs,
            "env_mask": mask,
        }  # fmt: skip
        logged, self._round = self._pending_extra_logs, []
        for i, row in enumerate(self.rows):
            generated = {name: column[i] for name, column in columns.items() if column is not None}
            noted = {name: values[i] for name, values in logged.items() if len(values) == len(self.rows)}
            scored = messages[i], rewards[i], self._completions[i]
            self._round.append(ScoredRow({**row, "prompt": prompts[i]}, generated, *scored, noted))
        logged.clear()
        raise RoundEnd

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        """TRL's rewards of all processes, kept with what was generated; a batch of rounds has them."""
        if self._batch is not None:
            return rewards_of(self._batch).to(self.accelerator.device)
        self._rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        ends = {*end_tokens(self), self._tokenizer.pad_token_id}
        self._completions = [
            Completion(completion_text(text), len(ids), not ids or ids[-1] not in ends)
            for text, ids in zip(completions, completion_ids_list, strict=True)
        ]
        return self._rewards

    # ------------------------------ observing and crediting ------------------------------

    def feedback(
        self, tickets: Sequence[int] | np.ndarray, rewards: torch.Tensor, sizes_P: np.ndarray
    ) -> Feedback:
        """Arrange the rewards of groups as the port takes them."""
        return read_feedback(
            tickets, rewards, sizes_P, weights=self.reward_weights, names=self.reward_func_names
        )

    def observe(self, draw: Draw, feedback: Feedback, completions: Sequence[Completion]) -> Verdict:
        """Report finished groups to the curriculum on the main process; every process gets the verdict.

        Args:
            completions: of all processes, group after group.
        """
        verdict = self.main_process.decide(lambda: self._observe_and_tell(draw, feedback, completions))
        if verdict.auxiliary_samples is not None:
            self._auxiliary.append(verdict.auxiliary_samples)
        return verdict

    def _observe_and_tell(self, draw: Draw, feedback: Feedback, completions: Sequence[Completion]) -> Verdict:
        """Observe groups and tell the listeners of them; runs on the main process."""
        verdict = self.curriculum.observe(**feedback.arguments())
        groups = by_group(completions, draw.rollouts.tolist())
        for listener in self._listeners:
            listener(GroupRecord(self.state.global_step, draw, feedback.rewards, verdict, groups))
        if not self.curriculum.ledger.observed:
            self._missing_rewards.count(feedback, self._batch_prompts)
        if not verdict.dropped.all():
            has_signal_P = ~self.curriculum.table.is_flat(verdict.informativeness[~verdict.dropped])
            self._metrics["train"]["curriculum/signal_share"] += has_signal_P.astype(float).tolist()
        if self._notices is not None:
            self._notices.groups(feedback)
        return verdict

    def _credit(
        self,
        output: dict[str, Any],
        verdicts: Sequence[Verdict],
        sizes_P: np.ndarray,
        variances_P: np.ndarray,
    ) -> None:
        """Put the curriculum's credit into this process's output, or multiply TRL's own advantages by it.

        TRL's advantages count where the rollout is credited and its group is not flat, in which they are 0 or
        rounding. With "normalize_then_sum" flat groups count, because parts may vary where their sum does
        not.

        Args:
            verdicts, sizes_P, variances_P: verdicts on the P groups of the batch, the rows of each, and the
                variance of its trained rewards.
        """
        credited: Sequence[Verdict | Credited] = verdicts
        is_factor = not self.curriculum.has_advantage
        if is_factor:
            counts_flat = self.multi_objective_aggregation == "normalize_then_sum"
            credited = [
                Credited(one.credited & (one.advantages.any(1, keepdims=True) | counts_flat), one.weights)
                for one in verdicts
            ]
        credit_PG = self.curriculum.credit(credited)
        credit = credit_PG[np.arange(credit_PG.shape[1]) < sizes_P[:, None]]
        share = own_share(self.accelerator, torch.from_numpy(credit)).to(output["advantages"])
        output["advantages"] = output["advantages"] * share if is_factor else share
        logged = self._logs.get("advantages")  # one generation's: what comes takes the place of as many
        if logged is not None:
            logged.extend((credit * [*logged] if is_factor else credit).tolist())
        if self.curriculum.has_allocation:  # TRL has taken every row for a group
            is_flat = self.curriculum.table.is_flat(variances_P)
            self._metrics["train"]["frac_reward_zero_std"][-1:] = [float(np.mean(is_flat))]

    # ------------------------------ filling a batch ------------------------------

    def _fill_batch(self) -> dict[str, Any]:
        """Go on in rounds until the batch is full of admitted groups; every process gets an equal share."""
        usual = self._metrics["train"]
        in_rounds = self._metrics["train"] = defaultdict(list)
        try:
            groups = fill_in_rounds(
                self, self._batch_rows, size=self.num_generations, step=self.state.global_step
            )
        finally:
            self._metrics["train"] = usual
        batch = [rollout for group in groups for rollout in group.rollouts]
        output, sizes_P = self._put_together(batch), np.array(list(map(len, groups)))
        variances_P = self.feedback(range(len(groups)), rewards_of(batch), sizes_P).variances
        self._credit(output, [group.verdict for group in groups], sizes_P, variances_P)
        # means over all rounds; TRL has described the batch's completions
        for name, values in in_rounds.items():
            if not name.startswith(("completions/", "num_tokens")):
                usual[name].append(float(np.mean(values)))
        self._fill_metrics = self.fill.batch_counts.metrics()
        return output

    def _put_together(self, batch: list[ScoredRow]) -> dict[str, Any]:
        """TRL's output of rollouts that rounds have generated and scored.

        TRL takes them as a rollout function's: it pads them, computes log-probabilities and advantages, and
        logs them, as of one generation.
        """
        own = own_share(self.accelerator, batch)
        rollouts = {"logprobs": None} | {
            name: [row.generated[name] for row in own] for name in own[0].generated
        }
        for column in sorted({name for row in batch for name in row.extra}):
            self._pending_extra_logs[column] = [row.extra.get(column) for row in own]
        tokens = self.state.num_input_tokens_seen
        instead: dict[str, Any] = {
            "rollout_func": lambda *_: {"logprobs": None} | rollouts,
            "tools": [], "environments": None, "environment_factories": None,
        }  # fmt: skip
        with replaced(self, _batch=batch, **instead, **self._trl_groups):
            output = super()._generate_and_score_completions([row.row for row in own])
        self.state.num_input_tokens_seen = tokens  # the rounds have counted them
        self._metrics["train"]["num_tokens"] = [tokens]
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
            pad_token = self._tokenizer.pad_token_id
            share_out(waiting, self._auxiliary, self.accelerator, divisor=divisor, pad_token=pad_token)
            self._auxiliary = []
        if self.policy.seconds:
            self._metrics["train"]["judge/seconds"].append(self.policy.seconds)
            self.policy.seconds = 0.0
        return inputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss and, in the first pass over a generation, the auxiliary samples' loss.

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
        """TRL's; True resumes from the last checkpoint that was saved whole.

        At the end the run folder gets the prompt table, and a line says where the folder is.

        Raises:
            ConfigError: the trainer was trained before, and nothing is resumed.
        """
        output_dir = Path(cast(str, self.args.output_dir))
        is_main = self.accelerator.is_main_process
        resumed = checkpoints.to_resume(resume_from_checkpoint, output_dir, is_main=is_main)
        reached = self.main_process.decide(lambda: self.curriculum.step)
        if reached and not resumed:
            raise ConfigError(
                f"the curriculum has been trained with until step {reached + 1}, and a run begins at step 0: "
                "build a new trainer, or go on with train(resume_from_checkpoint=True)"
            )
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
            rollouts = finished, self._buffered_inputs
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
        if self._writer is not None:
            self._writer.begin(checkpoints.step_of(Path(checkpoint)))

    def _load_curriculum(self, checkpoint: Path) -> None:
        rollouts = checkpoints.load(checkpoint, self.accelerator, self.curriculum, self.args)
        if rollouts is not None:
            self._step, self._buffered_inputs = rollouts

    # ------------------------------ evaluation ------------------------------

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """TRL's; once training has begun, its rewards also reach the run folder, as pass@k."""
        begun, self._held_out = time.perf_counter(), []
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        held_out, self._held_out = self._held_out, []
        if held_out and self._writer is not None and (self.is_in_train or self._writer.has_begun):
            rewards, size = torch.cat(held_out), cast(Any, self).num_generations_eval
            sizes_P = np.full(len(rewards) // size, size)
            rows = self.eval_dataset if eval_dataset is None else eval_dataset
            rows = cast(Any, self.eval_dataset)[rows] if isinstance(rows, str) else rows
            # to give every process as many prompts, the data loader begins anew after the last one
            prompts = len(rows) if isinstance(rows, Dataset) else None
            feedback = self.feedback(range(len(sizes_P)), rewards, sizes_P)
            scores = scores_of(feedback, prompts, self.curriculum)
            name = metric_key_prefix.replace("eval_", "eval/", 1)  # TRL's of one of several data sets
            named = {key.replace("eval", name, 1): value for key, value in scores.items()}
            self._writer.evaluated(self.state.global_step, named, time.perf_counter() - begun)
        return metrics
