"""The pages in a real browser, on a phone and a desk, in light and dark; needs Debian's chromium-driver."""

import pytest
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import HOSTILE, simulated_run

from curro.runs.report import write_comparison, write_report

PUBLISHED = "prioritized-replay:variant=published"
SCREENS = [(width, dark) for width in (360, 1280) for dark in (False, True)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    published = simulated_run(folder / "a", PUBLISHED, hostile=True)
    default = simulated_run(folder / "b", "prioritized-replay")
    predicting = simulated_run(folder / "p", "posterior:exploration=0.25")
    return {
        "published": write_report(published),
        "default": write_report(default),
        "predicting": write_report(predicting),
        "comparison": write_comparison({HOSTILE: [published], "b": [default]}, folder / "c.html"),
    }


@pytest.mark.parametrize(
    "screen", SCREENS, ids=lambda screen: f"{screen[0]}-{'dark' if screen[1] else 'light'}"
)
@pytest.mark.parametrize("name", ["published", "default", "predicting", "comparison"])
def test_a_page_is_readable(browser, pages, name, screen):
    width, dark = screen
    browser.open(pages[name], width=width, dark=dark)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(OUTSIDE) == []
    assert browser.run(SMALLEST_TEXT) >= 8.5
    assert browser.run(OVERLAPPING_LABELS) == []
    assert browser.run(LEAST_CONTRAST) >= 4.5
    assert browser.run("return document.querySelectorAll('figure > svg').length") >= 4


@pytest.mark.parametrize("name", ["published", "default", "comparison"])
def test_a_page_loads_and_runs_nothing(browser, pages, name):
    browser.console()
    browser.open(pages[name], width=1280, dark=False)
    assert browser.console() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return document.scripts.length") == 0


@pytest.mark.parametrize("name", ["published", "comparison"])
def test_hostile_keys_are_text(browser, pages, name):
    browser.open(pages[name], width=360, dark=False)
    text = browser.run("return document.body.innerText")
    assert '</td><script>alert("x")</script> $\\frac{1}{0}$' in text
    assert "\\x1b[31m\\u20" in text
    assert "\u202e" not in text


@pytest.mark.parametrize("name", ["published", "default", "predicting", "comparison"])
def test_ids_are_unique(browser, pages, name):
    browser.open(pages[name], width=1280, dark=False)
    ids = browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


OUTSIDE = """
// what sticks out of the page, but for tables that scroll by themselves
return [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.table') && !e.closest('defs'))
  .filter(e => { const box = e.getBoundingClientRect(), width = document.documentElement.clientWidth
                 return box.width && (box.left < -0.5 || box.right > width + 0.5) })
  .map(e => e.outerHTML.slice(0, 80))
"""

SMALLEST_TEXT = """
return Math.min(...[...document.querySelectorAll('figure > svg text')].map(text => {
  const svg = text.ownerSVGElement
  const zoom = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width
  return parseFloat(getComputedStyle(text).fontSize) * zoom
}))
"""

OVERLAPPING_LABELS = """
const found = []
for (const svg of document.querySelectorAll('figure > svg')) {
  const texts = [...svg.querySelectorAll('text')], frame = svg.getBoundingClientRect()
  const boxes = texts.map(text => text.getBoundingClientRect())
  boxes.forEach((a, i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1) found.push('cut: ' + texts[i].textContent)
    boxes.slice(0, i).forEach((b, j) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left)
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
      if (wide > 1 && high > 4) found.push(texts[i].textContent + ' over ' + texts[j].textContent)
    })
  })
}
return found
"""

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
