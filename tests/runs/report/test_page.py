"""The page of a run: what it holds, and that nothing of a run's texts becomes markup."""

import re
from html.parser import HTMLParser

import pytest

from curro.core.errors import RunError
from curro.runs.folder import RunFolder
from curro.runs.report.page import write_report

ALWAYS = [
    "Held-out success",
    "What the chosen prompts gave",
    "Reward of the training rollouts",
]


class Reader(HTMLParser):
    """The tags, the texts, and what would be loaded from elsewhere."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.links, self.ids = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data") and not value.startswith("#"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
            assert not name.startswith("on")

    def handle_data(self, data):
        self.texts.append(data.strip())


@pytest.mark.parametrize("name", ["published", "default", "uniform", "predicting"])
def test_a_page_has_the_pictures_of_its_method(pages, name):
    page, read = pages[name], Reader(pages[name])
    titles = re.findall(r"<figure>\s*<h3>(.*?)</h3>", page)
    assert sorted(titles) == sorted(ALWAYS)
    assert read.tags.count("figure") == len(titles)
    assert "Hardest" in read.texts
    assert "in 120 training steps" in read.texts
    assert "15,360" in read.texts
    assert "1 min 0 s" in read.texts


def test_the_same_run_gives_the_same_page(runs, pages, tmp_path):
    assert write_report(runs["default"][0], tmp_path / "again.html").read_text() == pages["default"]


def test_hostile_texts_are_escaped(simulated_run, hostile_key, tmp_path):
    run = simulated_run(
        tmp_path / "<b>x", "prioritized-replay:variant=published", steps=12, prompts=40, hostile=True
    )
    page = write_report(run)
    assert page == run.path / "report.html"
    read = Reader(page.read_text())
    assert "script" not in read.tags
    assert "b" not in read.tags
    assert "<b>x" in read.texts
    assert any(
        '<script>alert("x")</script> $\\frac{1}{0}$ \\x1b[31m\\u202e\\n&amp; {{ 7*7 }}' in text
        for text in read.texts
    )


def test_a_run_of_another_reward_range_and_reason(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"curriculum": {"selection": "mine", "reward_range": [-1, 1]}})
    run.append_metrics({"step": 1, "rollouts": 16, "seconds": 4000, "signal/ratio": float("nan")})
    group = {"step": 1, "prompt": 0, "key": "a", "reason": 9, "admitted": True}
    run.append_groups([group | {"mean": -1, "variance": 0}, group | {"mean": 0, "variance": 1, "step": 2}])
    read = Reader(write_report(run).read_text())
    assert "reason 9" in read.texts
    assert any("0.50 now" in text for text in read.texts)
    assert "1 h 6 min" in read.texts
    assert "This run was not evaluated on held-out prompts." in read.texts


def test_a_run_that_has_only_been_evaluated_shows_what_it_has(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 0, "rollouts": 0, "seconds": 0, "eval/pass@1": 0.25})
    read = Reader(write_report(run).read_text())
    assert "0.250" in read.texts
    assert read.tags.count("figure") == 1


def test_a_run_without_a_step_or_no_run_is_said(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    with pytest.raises(RunError, match="has not finished a training step yet"):
        write_report(run)
    with pytest.raises(RunError, match="there is no such folder"):
        write_report(tmp_path / "nowhere")


def test_kept_rollouts_and_judgments_are_on_the_page_as_text(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 2, "seconds": 1})
    group = {"step": 1, "prompt": 3, "ticket": 9, "key": "k", "reason": 1, "mean": 0.5, "variance": 0.25}
    run.append_groups([group | {"predicted_rate": 0.375, "source": "<i>s"}])
    texts = ["</pre><script>alert(1)</script>\n\x1b[2J{{ 7*7 }}", "x" * 5000]
    rollouts = [{"reward": float(i), "text": text, "tokens": 7, "cut": True} for i, text in enumerate(texts)]
    run.append_rollouts([{"step": 1, "prompt": 3, "ticket": 9, "text": "Q?", "rollouts": rollouts}])
    page = write_report(run).read_text()
    read = Reader(page)
    assert "script" not in read.tags
    assert "</pre><script>alert(1)</script>\n\\x1b[2J{{ 7*7 }}" in read.texts
    assert "Q?" in read.texts
    assert "rate 0.38" in read.texts
    assert "step 1, reward 0, 7 tokens, cut at the limit" in read.texts
    assert "… 3,000 more characters" in page
