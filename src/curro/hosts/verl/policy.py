"""verl's data set as a curriculum takes it, and verl's servers as the policy that a method may ask."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.identity import DatasetRows
from curro.core.policy import LIKELIEST, Reply, conversation_ids, entropy_of_likeliest
from curro.core.text import prompt_text
from curro.rollout.engines.models import load_model


class VerlRows(DatasetRows):
    """A data set of verl.

    Row i is what `dataset[i]` gives: the rows of all files, one after the other, as verl has filtered them.
    verl's own `index` counts within a file and is 0 if there is none, so it names no prompt.

    Args:
        dataset: verl's `RLHFDataset`, or another map-style data set.
        prompt_key: verl's; the rows of a data set without a frame may have `raw_prompt` instead.
    """

    def __init__(self, dataset: Any, prompt_key: str = "prompt") -> None:
        rows = getattr(dataset, "dataframe", None)
        if rows is None:
            rows = [_plain(dataset[row]) for row in range(len(dataset))]
            prompt_key = "raw_prompt" if rows and prompt_key not in rows[0] else prompt_key
        super().__init__(rows, prompt_key)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its tensors and images."""
    kept = (str, int, float, bool, list, dict, type(None))
    return {name: value for name, value in row.items() if isinstance(value, kept)}


@dataclass(frozen=True)
class Serving:
    """What the owner of the curriculum needs to ask verl's servers; the trainer sends it there.

    Attributes:
        client: verl's `LLMServerClient`.
        tokenizer: of the model.
        sampling: the sampling parameters of the rollouts.
        template: `data.apply_chat_template_kwargs`.
        context: how many tokens a server takes, prompt and answer together; None for the model's own limit.
    """

    client: Any
    tokenizer: Any
    sampling: dict[str, Any]
    template: dict[str, Any] = field(default_factory=dict)
    context: int | None = None

    @classmethod
    def of(cls, client: Any, tokenizer: Any, config: Any) -> Serving:
        """The servers as verl is configured: temperature, top-p and top-k are the rollouts'."""
        rollout = config.actor_rollout_ref.rollout
        sampling = {name: rollout[name] for name in ("temperature", "top_p", "top_k")}
        template = dict(config.data.get("apply_chat_template_kwargs", None) or {})
        return cls(client, tokenizer, sampling | {"repetition_penalty": 1.0}, template, rollout.max_model_len)


class ServedPolicy:
    """The policy, asked on the servers that also generate the rollouts; all questions are sent at once.

    Args:
        prompts: the data set.
        model: `actor_rollout_ref.model.path`, from which `backbone` copies.

    Attributes:
        serving: the servers; None until verl has started them.
        seconds: the time that answers have taken since this was last set to 0.
    """

    def __init__(self, prompts: VerlRows, model: str) -> None:
        self.prompts, self.model = prompts, model
        self.serving: Serving | None = None
        self.seconds = 0.0

    def prompt(self, number: int) -> str:
        """The text of a row's prompt; of a conversation, all messages but the system's."""
        return prompt_text(self.prompts.rows[number]["prompt"], "\n\n")

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """Entropies in nats, float32 (P, 2), of the first two tokens after prompts, as `Policy.entropies`.

        Each prompt is sent twice, for its likeliest first token and with that token behind it. At the second
        request a server holds the log-probabilities of its vocabulary for every token of the prompt.

        Raises:
            ConfigError: prompts with images, videos or sounds; servers that verl does not ask for
                log-probabilities of prompts, as TensorRT-LLM's.
        """
        since, serving = time.perf_counter(), self._servers()
        rows = {int(number): self.prompts.rows[int(number)] for number in prompts}
        if any(row.get(column) for row in rows.values() for column in ("images", "videos", "audios")):
            raise ConfigError("entropies are of prompts of text alone, and these have images or sounds")
        asked = [
            conversation_ids(serving.tokenizer, row["prompt"], **serving.template) for row in rows.values()
        ]
        likeliest = asyncio.run(_likeliest(serving, asked))
        temperature = serving.sampling["temperature"]
        self.seconds += time.perf_counter() - since
        return np.array(
            [[entropy_of_likeliest(place, temperature) for place in places] for places in likeliest],
            np.float32,
        )

    def backbone(self) -> tuple[Any, Any]:
        """The backbone of the model that the training starts from, in float32, and its tokenizer.

        Its later weights are split over verl's workers. The backbone runs on the GPU of the curriculum's
        owner (`curro.owner_gpus`), or on the CPU without one.
        """
        import torch

        model, tokenizer = load_model(self.model)
        return model.base_model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer to each conversation."""
        since, serving = time.perf_counter(), self._servers()
        prompts = [
            conversation_ids(serving.tokenizer, messages, **serving.template) for messages in conversations
        ]
        longest, context = max(map(len, prompts), default=0) + max_tokens, serving.context
        if context is not None and longest > context:
            raise ConfigError(
                f"a judgment takes up to {longest} tokens with its prompt, and "
                f"actor_rollout_ref.rollout.max_model_len is {context}: raise it, or lower the method's "
                "`cut`, `exemplars` or `max_tokens`"
            )
        completions = asyncio.run(_generate(serving, prompts, max_tokens))
        decode = serving.tokenizer.decode
        replies = [
            Reply(decode(tokens, skip_special_tokens=True), tuple(ids), tuple(tokens))
            for ids, tokens in zip(prompts, completions, strict=True)
        ]
        self.seconds += time.perf_counter() - since
        return replies

    def _servers(self) -> Serving:
        if self.serving is None:
            raise ConfigError("this method asks the policy before verl has started its servers")
        return self.serving


async def _generate(serving: Serving, prompts: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
    outputs = await asyncio.gather(
        *(
            serving.client.generate(
                request_id=uuid.uuid4().hex,
                prompt_ids=ids,
                sampling_params=serving.sampling | {"max_tokens": max_tokens},
            )
            for ids in prompts
        )
    )
    return [[int(token) for token in output.token_ids] for output in outputs]


async def _likeliest(serving: Serving, prompts: Sequence[list[int]]) -> list[list[list[float]]]:
    """The log-probabilities of the likeliest tokens in the two places after each prompt.

    verl's servers give them for the tokens of a prompt alone, as its distillation asks a teacher. So a prompt
    is sent again with its likeliest first token and another behind it.
    """
    # verl imports its plug-ins, which may import the owner, and the owner imports this module
    from verl.workers.rollout.llm_server import LLMServerClient

    end = serving.tokenizer.eos_token_id
    greedy = {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0, "max_tokens": 1}

    async def ask(ids: list[int], **options: Any) -> Any:
        # the client of the asynchronous modes would keep the tokens of the answer alone
        return await LLMServerClient.generate(
            serving.client,
            uuid.uuid4().hex,
            prompt_ids=ids,
            sampling_params={**greedy, **options},
        )

    async def places(ids: list[int]) -> list[list[float]]:
        answer = (await ask(ids)).token_ids
        first = int(answer[0]) if answer else end
        answer = await ask([*ids, first, end], prompt_logprobs=LIKELIEST)
        known = answer.extra_fields.get("prompt_logprobs")
        if known is None:
            raise ConfigError(
                "verl does not ask servers of this kind for log-probabilities of prompts: set "
                "actor_rollout_ref.rollout.name to vllm or sglang, or leave `entropy` out of the features"
            )
        return [known[len(ids) - 1], [0.0] if first == end else known[len(ids)]]

    return await asyncio.gather(*map(places, prompts))
