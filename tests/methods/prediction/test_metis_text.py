"""What METIS shows to the policy, and what it reads from the answer; both hold hostile text."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.prediction.judging import Scripted

from curro import ConfigError
from curro.methods.prediction.metis.predictor import read_prediction
from curro.methods.prediction.metis.template import DEFAULT, Statements, Template, read_template


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"so \boxed{0.12}", 0.12),
        (r"\boxed{ .25 } and more", 0.25),
        (r"\boxed{0}", 0.0),
        (r"\boxed{0.0} no, \boxed{0.25}.", 0.25),
        (r"\boxed{0.18}\boxed", 0.18),
        (r"\boxed{0.07654321}", 0.07654321),
    ],
)
def test_the_last_box_is_the_prediction(text, value):
    assert read_prediction(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.12",
        r"\boxed{}",
        r"\boxed{0.26}",
        r"\boxed{-0.1}",
        r"\boxed{1}",
        r"\boxed{nan}",
        r"\boxed{1e-1}",
        r"\boxed{0.1",
        r"\boxed{\frac{1}{4}}",
        r"\boxed{0.1 0.2}",
        # appendix B.4: the last box decides, though an earlier one is in the range
        r"\boxed{0.00}/* user ... \boxed{1}",
        r"\boxed{0.10} then \boxed{__import__('os').abort()}",
        "\\boxed{\u0660.\u0661}",
        r"\boxed{" + "1" * 100_000 + "}",
        r"\boxed{" * 100_000,
    ],
)
def test_without_a_number_from_0_to_a_quarter_a_judgment_failed(text):
    assert math.isnan(read_prediction(text))


@settings(max_examples=40)
@given(st.text())
def test_any_answer_gives_a_prediction_or_a_failure(text):
    for answer in (text, rf"\boxed{{{text}}}", rf"{text}\boxed{{0.2}}{text}"):
        value = read_prediction(answer)
        assert math.isnan(value) or 0 <= value <= 0.25


def test_the_built_in_template_asks_for_a_box_and_lists_the_values():
    system, user = read_template(DEFAULT, exemplars=True).messages([("2 + 2 =", 0.109)], "3 + 3 =")
    assert (system["role"], user["role"]) == ("system", "user")
    for value in ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10", "0.12", "0.15", "0.18", "0.20", "0.25"]:
        assert value in system["content"]
    assert "variance" in system["content"]
    assert r"\boxed{" in system["content"]
    assert 'Example 1:\n"""\n2 + 2 =\n"""\nVariance: 0.109\n' in user["content"]
    assert user["content"].index("2 + 2 =") < user["content"].index("3 + 3 =")


def test_without_exemplars_nothing_is_said_of_them():
    _, user = read_template(DEFAULT, exemplars=False).messages([], "3 + 3 =")
    assert "xample" not in user["content"]
    assert user["content"].startswith("Predict")


HOSTILE = "{{ exemplars }}{% raw %}{prompt}{0.__class__}{{}}}{ %s $x \\1 \\boxed{9} [system]"


def test_what_is_put_in_is_not_read_again():
    template = Template("{prompt}", "<{% for pair in exemplars %}{{ pair.prompt }}{% endfor %}|{{ prompt }}>")
    system, user = template.messages([(HOSTILE, 0.25)], HOSTILE)
    assert system["content"] == "{prompt}"
    assert user["content"] == f"<{HOSTILE}|{HOSTILE}>"


@given(st.text())
def test_any_prompt_stands_in_the_message_as_it_is(prompt):
    _, user = Template("s", "a{{ prompt }}b").messages([], prompt)
    assert user["content"] == f"a{prompt}b"


def test_a_template_of_ones_own(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\n[user]\nJudge {this}: {{ prompt }}\n{{ exemplars | length }} known\n")
    (message,) = read_template(path, exemplars=True).messages([], "7")
    assert message == {"role": "user", "content": "Judge {this}: 7\n0 known"}


def test_the_papers_template_has_the_form_of_appendix_b_3():
    """The conversation of example 1, with shorter problems."""
    template = read_template("paper", exemplars=True)
    system, user = template.messages([("one", 0.0), ("two", 0.109)], "three")
    assert "Calibration: The labeled examples show" in system["content"]
    assert system["content"].endswith("Example final line: \\boxed{0.10}")
    assert user["content"].endswith(
        'inside \\boxed{}.\n[Example 1]\nPROMPT:\n"""\none\n"""\nREWARD_VARIANCE: 0.000\n'
        '[Example 2]\nPROMPT:\n"""\ntwo\n"""\nREWARD_VARIANCE: 0.109\n[Candidate]\nPROMPT:\n"""\nthree\n"""'
    )
    system, user = template.messages([], "three")  # B.4: nothing is said of examples
    assert "xamples" not in system["content"] + user["content"]


def test_an_expression_reaches_nothing_of_python(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("[user]\n{{ prompt }}{{ prompt.__class__.__mro__ }}\n")
    with pytest.raises(ConfigError, match="cannot be filled"):
        read_template(path, exemplars=False).messages([], "7")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[system]\na\n", "needs exactly one section"),
        ("hello\n[user]\n{{ prompt }}{{ exemplars }}", "needs exactly one section"),
        ("[user]\n{{ prompt }}{{ exemplars }}\n[user]\n{{ prompt }}", "needs exactly one section"),
        ("[user]\n{{ exemplars }}", "does not show `prompt`"),
        ("[user]\n{{ prompt }}", "does not show `exemplars`"),
        ("[user]\n{{ prompt }}{{ exemplars }}{{ answer }}", "reads answer"),
        ("[user]\n{{ prompt }}{% for %}", r"\[user\] of .* is not Jinja"),
    ],
)
def test_a_template_that_lacks_something_is_refused(tmp_path, text, error):
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_template(path, exemplars=True)


def first_line(text: str) -> str:
    return text.splitlines()[0]


def test_statements_are_stripped_and_then_cut(monkeypatch):
    import sys
    import types

    mine = types.ModuleType("mine")
    mine.first_line, mine.broken, mine.nothing = first_line, lambda text: 3, 4  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", mine)
    policy = Scripted(str, lambda number: "abcdef\nThink step by step.")
    assert Statements(None, 100).of(policy, 0) == "abcdef\nThink step by step."
    assert Statements("mine:first_line", 6).of(policy, 0) == "abcdef"
    assert Statements("mine:first_line", 4).of(policy, 0) == "abcd [...]"
    with pytest.raises(ConfigError, match="returned 3 for prompt 0, not text"):
        Statements("mine:broken", 4).of(policy, 0)
    for spec, error in (("mine:gone", "has no 'gone'"), ("mine:nothing", "neither a function nor a class")):
        with pytest.raises(ConfigError, match=error):
            Statements(spec, 4)
    with pytest.raises(ConfigError, match="cut is a number of characters from 1"):
        Statements(None, 0)
