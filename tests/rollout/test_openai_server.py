"""The engine against `transformers serve` with a lab model, and against a fake server that misbehaves."""

from __future__ import annotations

import asyncio
import re
import socket
import time

import numpy as np
import pytest
from tests.rollout.server_setup import FakeServer, begin, transformers_serve

from curro.core.errors import ConfigError, EngineError, PromptError
from curro.lab import load
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.openai_server import Answer, OpenAIEngine
from curro.rollout.sampling import sample


def with_engine(use, url, model="tiny", **options):
    """The result of `await use(engine)`."""

    async def run():
        engine = OpenAIEngine(url, model, **{"max_new_tokens": 16, "backoff": 0.01} | options)
        try:
            return await use(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def rollouts(url, prompt="3afc=", n=2, **options):
    return with_engine(lambda engine: engine.generate(prompt, n), url, **options)


# transformers serve


async def four_groups(engine):
    """4 rollouts of each of 4 prompts."""
    return await asyncio.gather(*(engine.generate(f"{i}afc=", 4) for i in range(4)))


def test_transformers_serve_answers(serve, saved_models):
    """Greedily, so that the texts are those of the same model here."""
    model, tokenizer = load("chains")
    groups = with_engine(four_groups, serve, str(saved_models[0]), temperature=0.0)

    here = sample(model, tokenizer, [f"{i}afc=" for i in range(4)], n=1, settings=SamplingSettings(16, 0.0))
    for group, (ids,) in zip(groups, here, strict=True):
        text = tokenizer.decode(ids, skip_special_tokens=True)
        assert [(r.text, r.error, r.finish, r.token_ids) for r in group] == [(text, None, "stop", None)] * 4


def test_a_server_that_repeats_conversations_is_found_out(serve, saved_models):
    with pytest.raises(EngineError, match="repeats the conversation"):
        rollouts(serve, [{"role": "user", "content": "3afc="}], model=str(saved_models[0]))


def test_cancelling_stops_the_generation_on_the_server(serve, saved_models):
    """It works on one request at a time: the next is answered only if the first, of days, was given up."""

    async def use(engine):
        await engine.fields()
        long = asyncio.create_task(engine.generate("3afc=", 2))
        await asyncio.sleep(0.5)
        assert not long.done()
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        engine.sampling["max_tokens"] = 2
        return await engine.generate("3afc=", 1)

    (rollout,) = with_engine(use, serve, str(saved_models[1]), max_new_tokens=10**8)
    assert (rollout.error, rollout.finish) == (None, "length")


def test_a_server_that_dies_while_it_generates(saved_models, tmp_path):
    async def use(engine):
        await engine.fields()
        long = asyncio.create_task(engine.generate("3afc=", 2))
        await asyncio.sleep(0.5)
        process.kill()
        with pytest.raises(EngineError, match=r"no server answers at .*: start it"):
            await long

    with transformers_serve(tmp_path) as (url, process):
        with_engine(use, url, str(saved_models[1]), max_new_tokens=10**8)


# what servers give


def test_truncated_and_empty_texts_are_completions():
    fake = FakeServer()
    fake.finish = "length"
    with fake.running() as url:
        assert {rollout.finish for rollout in rollouts(url)} == {"length"}
        fake.finish, fake.pieces = "stop", [("", 2, -0.5)]
        empty = rollouts(url)[0]
    assert (empty.text, empty.token_ids, empty.finish, empty.error) == ("", (2,), "stop", None)


# servers that do not stream


@pytest.mark.parametrize("prompt", ["3afc=", [{"role": "user", "content": "3afc="}]])
@pytest.mark.parametrize("streaming", ["yes", "ignored", "refused"])
def test_several_completions_with_tokens_and_logprobs_streamed_or_in_one_piece(streaming, prompt):
    fake = FakeServer()
    fake.streaming = streaming
    with fake.running() as url:
        answers = rollouts(url, prompt, 3, model=None)
    assert len(answers) == 3
    for rollout in answers:
        assert (rollout.text, rollout.token_ids, rollout.finish) == ("40", (11, 7, 2), "stop")
        assert rollout.logprobs == (-0.5, -0.25, -0.125)
    # where streams are refused, one more request finds that out; all others then ask for none
    streams = [body["stream"] for body in fake.requests]
    assert streams == ([True] + [False] * 4 if streaming == "refused" else [True] * 4)
    assert {body["model"] for body in fake.requests} == {"tiny"}
    assert fake.requests[-1]["return_token_ids"] is True
    assert fake.requests[-1]["top_k"] == -1


@pytest.mark.parametrize("streaming", ["yes", "ignored", "refused"])
def test_a_strict_server_of_text_alone_gets_only_what_it_knows(streaming):
    fake = FakeServer("text")
    fake.strict, fake.streaming = True, streaming
    with fake.running() as url:
        answers = rollouts(url, n=3)
    assert [(rollout.text, rollout.token_ids, rollout.logprobs) for rollout in answers] == [
        ("40", None, None)
    ] * 3
    assert all("n" not in body for body in fake.requests)


def test_a_server_that_knows_the_newer_name_of_the_limit_alone():
    fake = FakeServer("text")
    fake.strict, fake.known = True, (fake.known - {"max_tokens"}) | {"max_completion_tokens"}
    fake.advice = "use max_completion_tokens"
    with fake.running() as url:
        assert [rollout.text for rollout in rollouts(url)] == ["40", "40"]
    assert [body["max_completion_tokens"] for body in fake.requests[-2:]] == [16, 16]


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_server_that_refuses_top_p(is_bare):
    fake = FakeServer("text")
    fake.strict, fake.known, fake.is_bare = True, fake.known - {"top_p"}, is_bare
    with fake.running() as url:
        assert [rollout.text for rollout in rollouts(url)] == ["40", "40"]
        assert "top_p" not in fake.requests[-1]
        with pytest.raises(EngineError, match="top_p"):  # where it would have changed the distribution
            rollouts(url, top_p=0.9)


@pytest.mark.parametrize(
    ("habits", "finish"),
    [
        ({"least": 16}, "stop"),  # it wants room for more than a token
        ({"streaming": "ignored", "finish": None}, "stop"),
        ({"finish": "max_tokens"}, "length"),
        ({"finish": "MAX_TOKENS"}, "length"),
        ({"finish": "model_length"}, "length"),
        ({"finish": "eos"}, "stop"),
    ],
)
def test_habits_of_servers(habits, finish):
    fake = FakeServer("text")
    for name, value in habits.items():
        setattr(fake, name, value)
    with fake.running() as url:
        assert [(rollout.text, rollout.finish) for rollout in rollouts(url)] == [("40", finish)] * 2


def test_a_server_that_fails_at_a_field_that_it_lacks():
    fake = FakeServer("text")
    fake.lacking = {"logprobs"}
    with fake.running() as url:
        assert [rollout.text for rollout in rollouts(url, retries=2)] == ["40", "40"]
    assert "logprobs" in fake.requests[0]
    assert all("logprobs" not in body for body in fake.requests[-2:])


def test_a_server_that_failed_while_it_started_is_asked_for_everything_again():
    fake = FakeServer()
    fake.first = [500] * 3
    with fake.running() as url:
        assert [rollout.logprobs for rollout in rollouts(url, retries=2)] == [(-0.5, -0.25, -0.125)] * 2
    assert "logprobs" in fake.requests[-1]


# what goes wrong


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (b'{"error": {"message": "out of memory"}}', "the server failed in its answer: out of memory"),
        (b'{"error": "out of memory"}', "the server failed in its answer: out of memory"),
        (b'{"choices": [{"index": 0, "text": null, "finish_reason": null}]}', "before its end"),
        (b'{"choices": []}', "before its end"),
        (b'["choices"]', "(application/json; charset=utf-8) stopped before its end"),
        (b"17", "before its end"),
        (500, "HTTP 500"),
        (429, "HTTP 429"),
        (b"data: {not json\n\n", "no JSON"),
        (b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
        (b'data: {"choices": [{"index": 0, "text": "4", "finish_reason": null}]}\n\n', "before its end"),
        (b"", "before its end"),
        (b"data: [1, null]\n\ndata: [DONE]\n\n", "before its end"),
    ],
)
def test_a_failed_request_is_repeated_and_then_given_up(trouble, said):
    fake = FakeServer()
    if isinstance(trouble, bytes) and trouble[:1] in (b"{", b"[", b"1"):
        fake.streaming = "ignored"
    with fake.running() as url:

        async def use(engine):
            await engine.fields()
            fake.first = [trouble] * 2
            recovered = await engine.generate("3afc=", 2)
            fake.first = [trouble] * 6
            return recovered, await engine.generate("3afc=", 2)

        recovered, lost = with_engine(use, url, retries=2)
    assert [rollout.error for rollout in recovered] == [None, None]
    assert len(lost) == 2
    assert all(said in rollout.error for rollout in lost)
    assert len(fake.requests) == 1 + 2 * 2 + 2 * 3


def test_a_server_that_wants_to_be_left_alone_is_not_asked_sooner():
    fake, times = FakeServer(), []

    def busy(handler):
        times.append(time.monotonic())
        begin(handler, 429, Retry_After="0.4")

    async def asked(engine):
        await engine.fields()
        fake.first = [busy, busy]
        return await engine.generate("?", 1)

    with fake.running() as url:
        assert with_engine(asked, url, retries=2)[0].error is None
    assert times[1] - times[0] >= 0.4


def test_a_prompt_that_is_refused_is_not_repeated():
    fake = FakeServer()
    with fake.running() as url:

        async def use(engine):
            await engine.fields()
            fake.first = [400] * 2
            with pytest.raises(
                PromptError, match=r"/v1 refuses the prompt '3afc=' \(HTTP 400: .*out of order"
            ):
                await engine.generate("3afc=", 2)
            return await engine.generate("5b=", 2)

        found = with_engine(use, url)
    assert [rollout.text for rollout in found] == ["40", "40"]
    assert len(fake.requests) == 1 + 2 + 2


def test_an_answer_that_takes_too_long():
    fake = FakeServer()
    with fake.running() as url:

        async def use(engine):
            await engine.fields()
            fake.without_end(pause=0.01)
            engine.server.timeout = 0.1
            asked = len(fake.requests)
            while len(fake.requests) == asked:  # a busy machine may take as long to send the request
                engine.server.timeout *= 2
                found = await engine.generate("3afc=", 2)
                assert all(f"in time ({engine.server.timeout:g} s)" in rollout.error for rollout in found)

        with_engine(use, url, retries=0)
        assert fake.hung_up.wait(600)


def test_a_cancelled_call_hangs_up_and_no_more_connections_than_allowed():
    fake = FakeServer()
    with fake.running() as url:

        async def use(engine):
            await engine.fields()
            fake.pause, fake.together = 0.05, 2
            await asyncio.gather(*(engine.generate("3afc=", 2) for _ in range(6)))
            fake.without_end(pause=0.01)
            late = asyncio.create_task(engine.generate("3afc=", 2))
            while len(fake.requests) < 14:
                await asyncio.sleep(0.01)
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late

        with_engine(use, url, connections=2)
        assert fake.hung_up.wait(600)
    assert fake.most == 2


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refuses the key"), (404, "has no model 'tiny'"), (400, "answers no request")]
)
def test_a_server_that_answers_no_request(status, said):
    fake = FakeServer()
    fake.first = [status] * 9
    with fake.running() as url, pytest.raises(EngineError, match=said):
        rollouts(url)


def test_no_server_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=r"no server answers at .*/v1"):
            rollouts(url)


@pytest.mark.parametrize(
    ("models", "said"), [(["small", "large"], "several: small, large$"), ([], "none to list$")]
)
def test_a_server_of_several_models_or_without_a_list_wants_a_name(models, said):
    fake = FakeServer()
    fake.models = models
    with fake.running() as url, pytest.raises(EngineError, match=f"name the model: .* has {said}"):
        rollouts(url, model=None)


def test_one_engine_in_several_event_loops():
    with FakeServer().running() as url:
        engine = OpenAIEngine(url, max_new_tokens=4)

        async def use(close):
            found = await engine.generate("3afc=", 2)
            if close:
                await engine.close()
            return found

        assert len(asyncio.run(use(False))) == len(asyncio.run(use(True))) == 2
        with pytest.raises(EngineError, match="closed"):
            asyncio.run(use(True))


def test_the_key_is_not_shown():
    server = OpenAIEngine("http://localhost:8000", max_new_tokens=4, api_key="secret").server
    assert "secret" not in repr(server)


def test_a_key_that_no_header_holds_is_refused_unseen():
    with FakeServer().running() as url:
        assert rollouts(url, n=1, api_key="secret\n")[0].error is None
    for key in ("sec\nret", "secret key", "sécret"):
        with pytest.raises(ConfigError, match=r"^the api_key has characters that no HTTP header holds"):
            OpenAIEngine("http://localhost:8000", max_new_tokens=4, api_key=key)


@pytest.mark.parametrize("address", ["localhost:8000", "http://host:port", "http://[::1"])
def test_an_address_that_is_none(address):
    with pytest.raises(ConfigError, match=rf"is like http://localhost:8000, not {re.escape(repr(address))}"):
        OpenAIEngine(address, max_new_tokens=4)


# hostile answers


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        [],
        {"choices": None},
        {"choices": [None, 3, {"index": "0"}, {"index": [0]}]},
        {"choices": [{"index": 0, "text": 5, "token_ids": "abc", "logprobs": [1], "finish_reason": 3}]},
        {"choices": [{"delta": {"content": None}, "logprobs": {"content": [None], "tokens": 3}}]},
    ],
)
def test_chunks_of_any_shape_are_survived(chunk):
    answer = Answer()
    answer.add(chunk)
    assert answer.finish is None
    assert answer.rollout(with_logprobs=True).text == ""


@pytest.mark.parametrize(
    ("ids", "logprobs", "is_known"),
    [
        *(([1], [p], (True, False)) for p in (10**400, -(10**400), -1e308, 0.5, True, np.nan, None)),
        ([1, 2], [-1.0], (True, False)),
        *((ids, [-1.0] * len(ids), (False, False)) for ids in ([1, True], [-4], [2**64], ["1"])),
        ([1], [-1], (True, True)),
    ],
)
def test_ids_and_log_probabilities_that_make_no_sense_are_left_out(ids, logprobs, is_known):
    answer = Answer()
    answer.add({"choices": [{"text": "\ud83d", "token_ids": ids, "logprobs": {"token_logprobs": logprobs}}]})
    answer.add({"choices": [{"text": "\ude00\ud83d", "finish_reason": "eos"}]})
    rollout = answer.rollout(with_logprobs=True)
    assert rollout.text == "\U0001f600\ufffd"
    assert (rollout.token_ids is not None, rollout.logprobs is not None) == is_known


def test_a_completion_that_the_server_withholds_is_a_failed_rollout():
    answer = Answer(pieces=["half"], finish="abort")
    assert "'abort'" in answer.rollout(with_logprobs=True).error
