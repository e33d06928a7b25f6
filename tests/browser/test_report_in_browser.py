"""The page in a real browser, still and live, on a phone and a desk; needs Debian's chromium-driver."""

import threading
from contextlib import contextmanager

import pytest
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import simulated_run

from curro.contrib.watch import server
from curro.runs.report.page import write_comparison, write_report

HOSTILE = (
    '</pre><script>window.hurt = 1</script><img src=x onerror="window.hurt = 2">\x1b[31m\u202eabc'
    + "y" * 1_000_000
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of hostile keys, of whose last groups hostile rollouts were kept."""
    run = simulated_run(tmp_path_factory.mktemp("runs") / "a", "posterior:exploration=0.25", hostile=True)
    rollouts = [{"reward": 0.0, "text": HOSTILE, "tokens": 9, "cut": True}, {"reward": 1.0, "text": "مرحبا"}]
    run.append_rollouts(
        {"step": row["step"], "prompt": row["prompt"], "text": HOSTILE, "rollouts": rollouts}
        for row in run.groups()[-32:]
    )
    return run


@pytest.fixture(scope="module")
def pages(run, tmp_path_factory):
    comparison = write_comparison({HOSTILE[:90]: [run], "b": [run]}, tmp_path_factory.mktemp("c") / "c.html")
    return {"run": write_report(run).as_uri(), "comparison": comparison.as_uri()}


@contextmanager
def watching(*runs):
    with server.WatchServer([server.WatchedRun(run.path, run.name) for run in runs]) as watch:
        threading.Thread(target=watch.serve_forever, daemon=True).start()
        yield watch.url
        watch.shutdown()


def eventually(browser, script):
    for _ in range(6000):
        if shown := browser.run(script):
            return shown
        threading.Event().wait(0.1)
    raise AssertionError(script)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["run", "comparison"])
def test_a_page_is_readable_and_loads_and_runs_nothing(browser, pages, name, width, dark):
    browser.console()
    browser.open(pages[name], width=width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(LEAST_CONTRAST) >= 4.5
    assert browser.run("return document.querySelectorAll('figure > svg').length") >= 2
    assert (
        browser.run("return performance.getEntriesByType('resource').length + document.scripts.length") == 0
    )
    ids = browser.run("return [...document.querySelectorAll('[id]')].map(part => part.id)")
    assert len(ids) == len(set(ids))
    assert browser.console() == []


@pytest.mark.parametrize("is_live", [False, True], ids=["still", "live"])
def test_hostile_texts_do_nothing(browser, pages, run, is_live):
    browser.console()
    with watching(run) as url:
        browser.open(url if is_live else pages["run"], width=360, dark=False)
        browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
        text = browser.run("return document.body.innerText")
        assert "</pre><script>window.hurt = 1</script><img src=x" in text
        assert "\\x1b[31m\\u202eabc" in text
        assert "\u202e" not in text
        assert len(text) < 500_000
        assert browser.run("return [window.hurt ?? null, document.images.length]") == [None, 0]
    assert [line for line in browser.console() if "refresh.js" not in line] == []


def test_the_live_page_follows_a_run_and_keeps_open_what_is_open(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "SHARE", 1.0)
    run = simulated_run(tmp_path / "run", "uniform", steps=5, prompts=20)
    with watching(run) as url:
        browser.open(url, width=1280, dark=False)
        browser.run("document.querySelector('details').open = true; scrollTo(0, 300)")
        opened = browser.run("return document.querySelector('details').id")
        run.append_metrics({"step": 6, "rollouts": 123_456, "seconds": 9.0})
        eventually(browser, "return document.body.innerText.includes('123,456')")
        assert browser.run(f"return document.getElementById('{opened}').open")
        assert browser.run("return scrollY") == 300


LEAST_CONTRAST = """
// of any text against what it stands on
const part = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(v => part(v / 255))
                          return 0.2126 * r + 0.7152 * g + 0.0722 * b }
const ground = e => { for (; e; e = e.parentElement) {
                        const colour = getComputedStyle(e).backgroundColor
                        if (colour != 'rgba(0, 0, 0, 0)') return colour } }
return Math.min(...[...document.querySelectorAll('body *')]
  .filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()))
  .map(e => { const style = getComputedStyle(e)
              const a = light(e instanceof SVGElement ? style.fill : style.color), b = light(ground(e))
              return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) }))
"""
