"""The live page in a real browser: a real run is watched while it trains, and hostile texts do nothing."""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import simulated_run
from tests.browser.test_report_in_browser import LEAST_CONTRAST, OUTSIDE, SCREENS

from curro.runs.folder import RunFolder

HOSTILE = (
    '</pre><script>window.hurt = 1</script><img src=x onerror="window.hurt = 2">\x1b[31m\u202eabc'
    + "y" * 1_000_000
)


class Page:
    """An address as `Browser.open` takes it."""

    def __init__(self, url):
        self.url = url

    def as_uri(self):
        return self.url


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@contextmanager
def watching(*runs):
    """`curro watch` as a process; its address."""
    command = [sys.executable, "-m", "curro", "watch", "--port", "0", *map(str, runs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    ) as server:
        try:
            said = iter(server.stdout.readline, "")
            yield Page(next(found[0] for line in said if (found := re.search(r"http://\S+", line))))
        finally:
            server.terminate()


def eventually(browser, script, seconds=900):
    """What a script returns as soon as it is true."""
    for _ in range(seconds * 5):
        if found := browser.run(script):
            return found
        threading.Event().wait(0.2)
    raise AssertionError(f"{script}: {browser.run('return document.body.innerText')}")


def complaints(browser):
    """What the browser complains of, except that a page whose server was stopped asks in vain."""
    ended = re.compile(
        "ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE|INCOMPLETE|CONTENT_LENGTH_MISMATCH)"
    )
    return [line for line in browser.console() if not ended.search(line)]


STEP = "return Number((document.getElementById('method').textContent.match(/step (\\d+)/) || [])[1] || 0)"

READ = """
// of a prompt of the rankings; a group's line may be read before those of its rollouts are written
const content = document.getElementById('prompt-content')
if (content.querySelector('details[open] pre')) return true
const waits = content.children.length && !content.querySelector('#prompt-key')
if (!waits) document.querySelector('#rankings button')?.click()
"""


def test_a_real_run_is_watched_while_it_trains(browser, tmp_path):
    """Begun before there is a run; numbers change; a prompt's rollouts are read; the run is killed.

    Of its 100,000 steps it makes as many as the browser needs.
    """
    run = tmp_path / "run"
    command = [
        "train",
        "--data",
        "lab:chains",
        "--curriculum",
        "uniform",
        "--out",
        str(run),
        "--eval-prompts",
        "8",
    ]
    command += [
        "--rollouts",
        "3200000",
        "--prompts-per-step",
        "8",
        "--rollouts-per-prompt",
        "4",
        "--keep-rollouts",
        "2",
    ]
    with watching(run) as page:
        browser.console()
        browser.open(page, width=1280, dark=False)
        eventually(
            browser, "return document.getElementById('live').textContent.includes('there is no such folder')"
        )
        with subprocess.Popen(
            [sys.executable, "-m", "curro", *command], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        ) as training:
            try:
                first = eventually(browser, f"const step = (() => {{ {STEP} }})(); return step >= 2 && step")
                figures = eventually(
                    browser, "return document.querySelector('figure[data-chart=outcomes] > svg')?.innerHTML"
                )
                eventually(browser, f"return (() => {{ {STEP} }})() > {first}")
                assert eventually(
                    browser,
                    "return document.querySelector('figure[data-chart=outcomes] > svg').innerHTML !== "
                    f"{figures!r}",
                )
                eventually(browser, READ)
                assert browser.run(
                    "return document.querySelector('#prompt[open] details[open] .badge').textContent"
                )
                assert browser.run(
                    "return document.querySelector('#prompt-content > pre').textContent.endsWith('=')"
                )
            finally:
                training.kill()
        whole = (run / "metrics.jsonl").read_text().rpartition("\n")[0].splitlines()
        last = max(json.loads(line)["step"] for line in whole)
        eventually(
            browser, f"return document.getElementById('method').textContent.includes('step {last} of 100000')"
        )
    assert eventually(browser, "return document.getElementById('live').className === 'lost'")
    assert complaints(browser) == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    hostile = simulated_run(folder / "hostile", "posterior:exploration=0.25", hostile=True)
    hostile.append_rollouts(
        {
            "step": row["step"],
            "prompt": row["prompt"],
            "text": HOSTILE,
            "rollouts": [
                {"reward": 0.0, "text": HOSTILE, "tokens": 9, "cut": True},
                {"reward": 1.0, "text": "مرحبا"},
            ],
        }
        for row in hostile.groups()[-8:]
    )
    return [hostile.path, simulated_run(folder / "plain", "uniform").path]


OUTSIDE_LIVE = OUTSIDE.replace("'.table'", "'.scroll, pre, dialog, #tip'")


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_the_page_is_readable(browser, runs, width, dark):
    with watching(*runs) as page:
        browser.console()
        browser.open(page, width=width, dark=dark)
        eventually(browser, "return document.querySelectorAll('figure > svg text').length > 100")
        eventually(browser, "return document.querySelectorAll('#together figure').length === 3")
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run("return document.querySelectorAll('figure > svg').length") >= 20
        assert browser.run(LEAST_CONTRAST) >= 4.5
        assert browser.run(OUTSIDE_LIVE) == []
        assert browser.run("return document.getElementById('verdict').className") in (
            "works",
            "level",
            "behind",
        )
        assert browser.run("return document.querySelectorAll('#runs button').length") == 2
        assert complaints(browser) == []


def test_hostile_texts_do_nothing(browser, runs):
    with watching(*runs) as page:
        browser.console()
        browser.open(page, width=360, dark=True)
        eventually(browser, "return document.querySelector('#rankings button')")
        eventually(browser, "return document.getElementById('live').textContent === 'live'")
        number = RunFolder.open(runs[0]).groups()[-1]["prompt"]
        browser.run(
            f"document.querySelector('#find input').value = {number};"
            "document.querySelector('#find button').click()"
        )
        text = eventually(browser, "return document.querySelector('#prompt details[open] pre')?.textContent")
        assert text.startswith("</pre><script>window.hurt = 1</script><img src=x")
        assert "\\u001b[31m\\u202eabc" in text
        assert len(text) < 30_000
        browser.run("document.querySelector('#prompt details[open] pre button').click()")
        assert (
            browser.run("return document.querySelector('#prompt details[open] pre').textContent.length")
            > 1_000_000
        )
        assert browser.run("return document.documentElement.scrollWidth") <= 360
        assert browser.run("return document.getElementById('prompt').scrollWidth") <= 360
        assert browser.run(
            "return [window.hurt ?? null, document.images.length, document.scripts.length]"
        ) == [None, 0, 1]
        assert "\u202e" not in browser.run("return document.body.innerText")
        assert complaints(browser) == []


def test_runs_are_chosen_by_their_tabs(browser, runs):
    with watching(*runs) as page:
        browser.open(page, width=1280, dark=False)
        eventually(browser, "return document.getElementById('method').textContent.includes('posterior')")
        eventually(browser, "return document.querySelectorAll('#together figure').length === 3")
        assert browser.run("return document.querySelector('main').firstElementChild.id") == "together"
        eventually(browser, "return document.querySelectorAll('#together tr').length === 3")
        browser.run("document.querySelectorAll('#runs button')[1].click()")
        eventually(browser, "return document.getElementById('method').textContent.includes('uniform')")
        assert browser.run("return document.getElementById('name').textContent") == "plain"
        assert browser.run("return !document.querySelector('figure[data-chart=calibration]')")
