"""What the service answers, asked without a network."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contrib.serve.asking import exchange, post

from curro import Curriculum
from curro.contrib.serve import ServedCurriculum
from curro.contrib.serve.application import LARGEST_JSON, Service
from curro.contrib.serve.client import FRAME
from curro.contrib.serve.saved import SHIFT, SavedCurriculum
from curro.core.errors import ConfigError
from curro.core.identity import DatasetRows

SIZE = 20


@pytest.fixture
def service(tmp_path):
    saved = SavedCurriculum(Curriculum("uniform", SIZE, seed=1), tmp_path / "live")
    yield Service(saved, "secret")
    saved.close()


def counts(service):
    metrics = exchange(service, "GET", "/metrics")[1]
    return [metrics[name] for name in ("selected", "observed", "dropped", "in_flight")]


def test_json_asks_the_same_as_the_port(service):
    twin = Curriculum("uniform", SIZE, seed=1)
    status, draw = post(service, "select", n=3, step=2)
    expected = twin.select(3, step=2)
    assert status == 200
    assert draw["prompts"] == expected.prompts.tolist()
    assert (draw["tickets"], draw["step"], draw["start"]) == ([0, 1, 2], 2, 0)
    rewards = [[1, 0, None], [1.0, 1], [0.5, 0, 0.25]]
    status, verdict = post(service, "observe", tickets=[2, 0, 1], rewards=rewards)
    theirs = twin.observe([2, 0, 1], [[1, 0, np.nan], [1, 1, np.nan], [0.5, 0, 0.25]])
    assert status == 200
    np.testing.assert_array_equal(verdict["advantages"], theirs.advantages)
    assert verdict["admitted"] == [True, True, True]
    status, credit = post(service, "credit", advantages=verdict["advantages"], weights=verdict["weights"])
    np.testing.assert_array_equal(credit["credit"], twin.credit(theirs))
    _, flying = post(service, "select", n=2, step=2)
    assert post(service, "drop", tickets=flying["tickets"]) == (200, {"start": 0})
    assert counts(service) == [5, 3, 2, 0]


def test_a_checkpoint_is_saved_and_loaded_by_its_name_and_drops_what_is_in_flight(service):
    old = post(service, "select", n=3, step=0)[1]["tickets"]
    assert post(service, "save", name="step-1")[1]["path"].endswith("live/checkpoints/step-1.npz")
    post(service, "select", n=4, step=0)
    assert post(service, "load", name="step-1") == (200, {"start": 1})
    assert counts(service) == [3, 0, 3, 0]
    new = post(service, "select", n=2, step=0)[1]["tickets"]
    assert new == [(1 << SHIFT) + 3, (1 << SHIFT) + 4]
    rewards = [[1, 0]] * 3
    status, verdict = post(service, "observe", tickets=[old[0], new[0], old[1]], rewards=rewards)
    assert (status, verdict["admitted"], verdict["mean"]) == (200, [False, True, False], [None, 0.5, None])
    assert verdict["advantages"] == [[0, 0], [0.5, -0.5], [0, 0]]
    assert post(service, "observe", tickets=[4], rewards=[[1, 0]])[1]["admitted"] == [False]
    assert post(service, "drop", tickets=[old[2], new[1]])[0] == 200
    assert counts(service) == [5, 1, 4, 0]


@pytest.mark.parametrize("name", ["nowhere", "damaged", "other"])
def test_a_checkpoint_that_cannot_be_loaded_is_the_callers_mistake_and_changes_nothing(service, name):
    drawn = post(service, "select", n=3, step=0)[1]
    folder = service.saved.folder / "checkpoints"
    Curriculum("uniform", SIZE, seed=2).save(folder / "other.npz")
    (folder / "damaged.npz").write_bytes((folder / "other.npz").read_bytes()[:-9])
    status, error = post(service, "load", name=name)
    assert (status, error["error"]["kind"]) == (404 if name == "nowhere" else 409, "CheckpointError")
    status, verdict = post(service, "observe", tickets=drawn["tickets"], rewards=[[1, 0]] * 3)
    assert (status, verdict["admitted"]) == (200, [True] * 3)


@pytest.mark.parametrize(
    ("question", "fields", "status", "words"),
    [
        ("select", {"n": 21}, 409, "21 prompts"),
        ("select", {"n": "many"}, 400, "n is a whole number"),
        ("select", {"n": 10**400}, 400, "a call gives at most"),
        ("select", {"n": True}, 400, "n is a whole number"),
        ("drop", {"tickets": [0] * 2_000_000}, 400, "a call settles at most"),
        ("select", {"n": 2, "stop": 1}, 400, "'stop'"),
        ("select", {}, 400, "'n'"),
        ("drop", {"tickets": [5]}, 409, "never given out"),
        ("drop", {"tickets": [1 << SHIFT]}, 409, "never given out"),
        ("drop", {"tickets": [-1]}, 409, "never given out"),
        ("drop", {"tickets": [0.5]}, 400, "tickets"),
        ("drop", {"tickets": [[1], [1, 2]]}, 400, "tickets"),
        ("drop", {"tickets": [10**400]}, 400, "tickets"),
        ("observe", {"rewards": [["high"]]}, 400, "rewards"),
        ("observe", {"rewards": [1]}, 400, "rewards"),
        ("observe", {"rewards": {"a": 1}}, 400, "rewards"),
        ("observe", {"rewards": [[1], [0]]}, 400, "rewards"),
        ("observe", {"rewards": [[10**400]]}, 400, "rewards"),
        ("observe", {"rewards": [[1]], "named": [1]}, 400, "`named`"),
        ("observe", {"rewards": [[1]], "named": {"n" * 10**6: [["x"]]}}, 400, "named/n"),
        ("credit", {"advantages": [[10**400]], "weights": [1]}, 400, "advantages"),
        ("credit", {"advantages": [1], "weights": [1]}, 400, "advantages"),
        ("save", {"name": "é" * 100}, 400, "the name of a checkpoint"),
        ("save", {"name": "../away"}, 400, "the name of a checkpoint"),
        ("load", {"name": "x" * 10**6}, 400, "the name of a checkpoint"),
        ("load", {"name": 3}, 400, "the name of a checkpoint"),
    ],
)
def test_a_wrong_question_gets_one_short_sentence_and_changes_nothing(
    service, question, fields, status, words
):
    draw = post(service, "select", n=1, step=0)[1]
    post(service, "drop", tickets=draw["tickets"])
    if question == "observe":
        fields = fields | {"tickets": post(service, "select", n=1, step=0)[1]["tickets"]}
    before = service.saved.curriculum.metrics()
    answered, reply = post(service, question, **({"step": 0} if "n" in fields else {}), **fields)
    assert answered == status
    sentence = reply["error"]["words"]
    assert words in sentence
    assert len(sentence) < 300
    assert "\n" not in sentence
    assert service.saved.curriculum.metrics() == pytest.approx(before, nan_ok=True)


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("POST", "/select", b"{}", "text/plain", 415),
        ("POST", "/shutdown", b"{}", "application/json", 404),
        ("GET", "/select", b"", "application/json", 405),
        ("POST", "/metrics", b"{}", "application/json", 405),
        ("POST", "/select", b"{", "application/json", 400),
        ("POST", "/select", b"[1]", "application/json", 400),
        ("POST", "/select", b"[" * 100_000, "application/json", 400),
        ("POST", "/select", b" " * (LARGEST_JSON + 1), "application/json", 413),
    ],
)
def test_what_never_reaches_the_curriculum(service, method, path, body, kind, status):
    answered, reply = exchange(service, method, path, body, kind=kind)
    assert (answered, reply["error"]["kind"]) == (status, "Refused")
    assert service.saved.curriculum.ledger.selected == 0


def test_a_client_of_version_0_2_is_told_what_to_install(service):
    words = exchange(service, "POST", "/observe", b"", kind=FRAME)[1]["error"]["words"]
    assert words.endswith("this is a client of curro 0.2, install the service's version there")


def test_no_checkpoint_is_written_through_a_link(service, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (service.saved.folder / "checkpoints").symlink_to(elsewhere)
    assert post(service, "save", name="one")[0] == 400
    assert not list(elsewhere.iterdir())


def test_a_client_refuses_other_rows_than_those_that_are_served(tmp_path, monkeypatch):
    rows = [{"prompt": f"p{number}", "answer": "1"} for number in range(3)]
    saved = SavedCurriculum(Curriculum("uniform", DatasetRows(rows)), tmp_path / "live")
    service, client = Service(saved, "secret"), ServedCurriculum("http://127.0.0.1:1", "secret")
    monkeypatch.setattr(
        client, "_ask", lambda method, question, body: exchange(service, method, f"/{question}", body)[1]
    )
    client.check_rows(DatasetRows(rows))
    with pytest.raises(ConfigError, match="in another order"):
        client.check_rows(DatasetRows(rows[::-1]), "train_dataset")
    with pytest.raises(ConfigError, match="train_dataset has 2"):
        client.check_rows(DatasetRows(rows[1:]), "train_dataset")
    saved.close()


def test_a_key_answers_its_own_question_alone(service):
    def ask(question, body):
        return service.answer("POST", f"/{question}", body, "application/json", "key")

    first = ask("select", b'{"n": 2, "step": 0}')
    assert ask("select", b'{"n": 2, "step": 0}') == first
    for other in (("select", b'{"n": 3, "step": 0}'), ("drop", b'{"tickets": [0]}')):
        status, reply = ask(*other)
        assert (status, b"another one: give it its own" in reply) == (422, True)
    assert counts(service) == [2, 0, 0, 2]
