"""What the service answers, asked without a network."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.contrib.serve.asking import exchange, post

from curro import Curriculum
from curro.contrib.serve import ServedCurriculum
from curro.contrib.serve.application import LARGEST, LARGEST_JSON, Service
from curro.contrib.serve.client import FRAME
from curro.core.errors import ConfigError
from curro.core.identity import DatasetRows
from curro.durable import DurableCurriculum
from curro.durable.frames import decode, encode

SIZE = 20


@pytest.fixture
def service(tmp_path):
    durable = DurableCurriculum(Curriculum("uniform", SIZE, seed=1), tmp_path / "live")
    yield Service(durable, "secret", {"address": "here"})
    durable.close()


def test_json_asks_the_same_as_the_port(service, tmp_path):
    twin = Curriculum("uniform", SIZE, seed=1)
    status, draw = post(service, "select", client="a", call=1, n=3, step=2)
    expected = twin.select(3, step=2)
    assert status == 200
    assert draw["prompts"] == expected.prompts.tolist()
    assert draw["tickets"] == [0, 1, 2]
    assert draw["step"] == 2
    rewards = [[1, 0, None], [1.0, 1], [0.5, 0, 0.25]]
    status, verdict = post(service, "observe", client="a", call=2, tickets=[2, 0, 1], rewards=rewards)
    theirs = twin.observe([2, 0, 1], [[1, 0, np.nan], [1, 1, np.nan], [0.5, 0, 0.25]])
    assert status == 200
    np.testing.assert_array_equal(verdict["advantages"], theirs.advantages)
    assert verdict["admitted"] == [True, True, True]
    assert verdict["auxiliary_samples"] is None
    status, credit = post(service, "credit", advantages=verdict["advantages"], weights=verdict["weights"])
    np.testing.assert_array_equal(credit["credit"], twin.credit(theirs))
    _, flying = post(service, "select", client="a", call=3, n=2, step=2)
    assert post(service, "drop", client="a", call=4, tickets=flying["tickets"]) == (200, {})
    body = exchange(service, "GET", "/metrics")[2]
    metrics = json.loads(body)
    assert (metrics["observed"], metrics["dropped"], metrics["in_flight"]) == (3, 2, 0)


def test_an_observe_and_a_select_in_one_request(service):
    twin = Curriculum("uniform", SIZE, seed=1)
    draw = post(service, "select", client="a", call=1, n=3, step=0)[1]
    expected = twin.select(3, step=0)
    ended = {"tickets": draw["tickets"], "rewards": [[1, 0], [1, 1], [0, None]]}
    both = post(service, "observe_and_select", client="a", call=2, n=SIZE, step=1, **ended)
    assert both == post(service, "observe_and_select", client="a", call=2, n=SIZE, step=1, **ended)
    theirs = twin.observe(expected.tickets, [[1, 0], [1, 1], [0, np.nan]])
    np.testing.assert_array_equal(both[1]["verdict"]["advantages"], theirs.advantages)
    assert both[1]["draw"]["prompts"] == twin.select(SIZE, step=1).prompts.tolist()
    ended = {"tickets": both[1]["draw"]["tickets"][:2], "rewards": [[1], [0]]}
    status, too_many = post(service, "observe_and_select", client="a", call=3, n=3, step=2, **ended)
    assert (status, too_many["draw"], len(too_many["verdict"]["prompts"])) == (200, None, 2)
    metrics = json.loads(exchange(service, "GET", "/metrics")[2])
    assert (metrics["selected"], metrics["observed"], metrics["in_flight"]) == (3 + SIZE, 5, SIZE - 2)


def test_a_checkpoint_is_saved_and_loaded_by_its_name(service):
    post(service, "select", client="a", call=1, n=3, step=0)
    status, saved = post(service, "save", name="step-1")
    assert status == 200
    assert saved["path"].endswith("live/checkpoints/step-1.npz")
    post(service, "select", client="a", call=2, n=4, step=0)
    assert post(service, "load", name="step-1", kept=[1]) == (200, {})
    metrics = json.loads(exchange(service, "GET", "/metrics")[2])
    assert (metrics["selected"], metrics["dropped"], metrics["in_flight"]) == (3, 2, 1)
    for name in ("../away", "/etc/x", "", ".hidden", 3):
        status, reply = post(service, "save", name=name)
        assert status == 400
        assert "the name of a checkpoint" in reply["error"]["words"]
    status, reply = post(service, "load", name="never-saved")
    assert status == 500
    assert "no saved curriculum" in reply["error"]["words"]


def test_frames_give_the_bytes_that_were_written_down(service):
    asked = encode({"client": "a", "call": 1, "n": 2, "step": 0})
    first = exchange(service, "POST", "/select", asked, kind=FRAME, parts=3)
    assert first[:2] == (200, FRAME)
    assert exchange(service, "POST", "/select", asked, kind=FRAME) == first
    draw = decode(first[2])["draw"]
    assert draw["prompts"].dtype == np.int64
    metrics = decode(exchange(service, "GET", "/metrics", kind=FRAME)[2])
    assert metrics["selected"] == 2


def test_a_repeated_request_counts_once(service):
    for _ in range(2):
        status, draw = post(service, "select", client="a", call=1, n=3, step=0)
        assert (status, draw["tickets"]) == (200, [0, 1, 2])
    status, reply = post(service, "select", client="a", call=1, n=4, step=0)
    assert status == 400
    assert "call 1 of the client 'a' was another one" in reply["error"]["words"]


@pytest.mark.parametrize(
    ("question", "fields", "status", "words"),
    [
        ("select", {"n": 21}, 409, "21 prompts were asked for and 20 of 20 are free"),
        ("select", {"n": "many"}, 400, "whole number as n"),
        ("select", {"n": 2, "stop": 1}, 400, "select has no field 'stop'; it has: n, step, rollouts"),
        ("select", {}, 400, "select needs the field 'n'"),
        ("drop", {"tickets": [5]}, 409, "never given out"),
        ("drop", {"tickets": [0.5]}, 400, "tickets are a list of whole numbers"),
        ("drop", {"tickets": [[1], [1, 2]]}, 400, "tickets are a list of whole numbers"),
        ("observe_and_select", {"tickets": [9], "rewards": [[1]], "n": 2}, 409, "never given out"),
        ("observe", {"tickets": [0], "rewards": [["high"]]}, 400, "rewards are finite numbers"),
        ("observe", {"tickets": [0], "rewards": [1]}, 400, "rewards are a list for each ticket"),
        ("observe", {"tickets": [0], "rewards": {"a": 1}}, 400, "rewards are a number a rollout"),
        ("observe", {"tickets": [0], "rewards": [[1]], "named": [1]}, 400, "`named`"),
    ],
)
def test_a_wrong_question_gets_one_sentence_and_changes_nothing(service, question, fields, status, words):
    draw = post(service, "select", client="a", call=1, n=1, step=0)[1]
    post(service, "drop", client="a", call=2, tickets=draw["tickets"])
    if question == "observe":
        fields = fields | {"tickets": post(service, "select", client="a", call=3, n=1, step=0)[1]["tickets"]}
    before = service.durable.curriculum.metrics()
    step = {"step": 0} if "n" in fields else {}
    found, reply = post(service, question, client="b", call=1, **step, **fields)
    assert found == status
    assert words in reply["error"]["words"]
    assert service.durable.curriculum.metrics() == pytest.approx(before, nan_ok=True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"call": 1}, "`client` is the caller's own name"),
        ({"client": "x" * 101, "call": 1}, "`client` is the caller's own name"),
        ({"client": "a"}, "`call` is the number"),
        ({"client": "a", "call": True}, "`call` is the number"),
    ],
)
def test_a_call_needs_a_client_and_a_number(service, fields, words):
    status, reply = post(service, "select", n=1, step=0, **fields)
    assert status == 400
    assert words in reply["error"]["words"]


@pytest.mark.parametrize(
    ("method", "path", "body", "how", "status"),
    [
        ("GET", "/metrics", b"", {"token": "wrong"}, 401),
        ("GET", "/metrics", b"", {"token": "s\u00e9cret"}, 401),
        ("POST", "/select", b"{}", {"kind": "text/plain"}, 415),
        ("POST", "/shutdown", b"{}", {}, 404),
        ("GET", "/select", b"", {}, 405),
        ("POST", "/select", b"{", {}, 400),
        ("POST", "/select", b"[1]", {}, 400),
        ("POST", "/select", b"[" * 100_000, {}, 400),
        ("POST", "/select", b"no frame", {"kind": FRAME}, 400),
        ("POST", "/select", b" " * (LARGEST_JSON + 1), {"parts": 4}, 413),
        ("POST", "/select", b" " * (LARGEST_JSON + 1), {"parts": 4, "kind": FRAME}, 400),
        ("POST", "/select", b" " * (LARGEST + 1), {"parts": 4, "kind": FRAME}, 413),
    ],
)
def test_what_never_reaches_the_curriculum(service, method, path, body, how, status):
    found, _, reply = exchange(service, method, path, body, **how)
    assert found == status
    error = (decode(reply) if how.get("kind") == FRAME else json.loads(reply))["error"]
    assert error["words"]
    assert service.durable.curriculum.ledger.selected == 0


def test_no_checkpoint_is_written_through_a_link(service, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (service.durable.folder / "checkpoints").symlink_to(elsewhere)
    status, reply = post(service, "save", name="one")
    assert status == 400
    assert "is a link" in reply["error"]["words"]
    assert not list(elsewhere.iterdir())


def test_the_service_says_what_it_serves(service):
    about = json.loads(exchange(service, "GET", "/")[2])
    assert about["prompts"] == SIZE
    assert about["curriculum"]["selection"] == {"name": "uniform"}
    assert about["address"] == "here"


def test_a_client_refuses_other_rows_than_those_that_are_served(tmp_path, monkeypatch):
    rows = [{"prompt": f"p{number}", "answer": "1"} for number in range(3)]
    durable = DurableCurriculum(Curriculum("uniform", DatasetRows(rows)), tmp_path / "live")
    service = Service(durable, "secret", {})
    client = ServedCurriculum("http://127.0.0.1:1", "secret")
    monkeypatch.setattr(
        client,
        "_ask",
        lambda method, question, body: decode(exchange(service, method, f"/{question}", body, kind=FRAME)[2]),
    )
    client.check_rows(DatasetRows(rows))
    with pytest.raises(ConfigError, match="another data set than train_dataset, or in another order"):
        client.check_rows(DatasetRows(rows[::-1]), "train_dataset")
    with pytest.raises(ConfigError, match="is over 3 prompts, train_dataset has 2"):
        client.check_rows(DatasetRows(rows[1:]), "train_dataset")
    durable.close()


@pytest.mark.parametrize("name", ["nowhere", "damaged", "other"])
def test_a_checkpoint_that_cannot_be_loaded_changes_nothing(service, name):
    drawn = post(service, "select", client="a", call=1, n=3, step=0)[1]
    folder = service.durable.folder / "checkpoints"
    Curriculum("uniform", SIZE, seed=2).save(folder / "other.npz")
    (folder / "damaged.npz").write_bytes((folder / "other.npz").read_bytes()[:-9])
    status, error = post(service, "load", name=name)
    assert (status, error["error"]["kind"]) == (500, "CheckpointError")
    verdict = post(service, "observe", client="a", call=2, tickets=drawn["tickets"], rewards=[[1, 0]] * 3)
    assert verdict[0] == 200


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("observe", {"client": "a", "call": 1, "tickets": [0], "rewards": [[10**400]]}),
        (
            "observe",
            {"client": "a", "call": 1, "tickets": [0], "rewards": [[1]], "named": {"n" * 10**6: [["x"]]}},
        ),
        ("observe", {"client": "a", "call": 1, "tickets": [10**400], "rewards": [[1]]}),
        ("credit", {"advantages": [[10**400]], "weights": [1]}),
        ("select", {"client": "a", "call": 1, "n": 10**400, "step": 0}),
        ("save", {"name": "é" * 100}),
        ("save", {"name": "x" * 10**6}),
        ("load", {"name": "é" * 100}),
    ],
)
def test_long_numbers_and_names_are_one_short_sentence(service, question, fields):
    status, reply = post(service, question, **fields)
    assert status == 400
    words = reply["error"]["words"]
    assert len(words) < 300
    assert "\n" not in words


@pytest.mark.parametrize("field", ["rewards", "named"])
def test_short_groups_beside_a_long_one_take_no_more_memory_than_a_body(service, monkeypatch, field):
    """21 groups that have 100 rewards together would have 2,100 once they are rows of one array."""
    monkeypatch.setattr("curro.contrib.serve.application.LARGEST", 8 * 2000)
    draw = post(service, "select", client="a", call=1, n=1, step=0)[1]
    ragged = [[1] * 100, *[[]] * 20]
    fields = {"tickets": draw["tickets"], "rewards": [[1]]} | {
        field: {"x": ragged} if field == "named" else ragged
    }
    status, reply = post(service, "observe", client="a", call=2, **fields)
    assert status == 400
    assert "a call takes 2000: observe fewer groups in a call" in reply["error"]["words"]


def test_a_method_that_draws_prompts_again_gives_no_endless_number_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("curro.contrib.serve.application.MOST_PROMPTS", 2 * SIZE)
    durable = DurableCurriculum(Curriculum("pspo:replacement=true", SIZE), tmp_path / "live")
    service = Service(durable, "secret", {})
    status, reply = post(service, "select", client="a", call=2, n=2 * SIZE + 1, step=0)
    assert (status, reply["error"]["words"]) == (
        400,
        "a call gives at most 40 prompts, not 41: ask in several",
    )
    durable.close()
