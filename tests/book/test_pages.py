"""Every page of the built book in Debian's chromium: charts and formulas shown, no error, no outside request, axe without a finding, readable on a phone."""

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

SITE = Path(__file__).parents[2] / "_build" / "html"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("book/*.html"))
LANDING = sorted(p.relative_to(SITE).as_posix() for p in SITE.glob("figures/*/index.html"))
WITH_CHARTS = [name for name in PAGES if 'class="kv-more"' in (SITE / name).read_text("utf-8")]
AXE: dict[str, Any] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "preload": False, "resultTypes": ["violations"]}
SAME_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}  # slow, and the colours of a page do not depend on its width
PHONE, DESK = 390, 1280
SMALLEST_TEXT = 9  # px of a chart's 14 px label on a phone

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="browser check: no chromium found; install it (Debian: apt-get install chromium)"),
]

LOOK = """async () => {
  const soon = (work) => Promise.race([work, new Promise(done => setTimeout(done, 20000))]);
  for (const image of document.images) image.loading = "eager";
  if (window.MathJax && MathJax.startup) await soon(MathJax.startup.promise);
  await soon(Promise.all([...document.images].map(i => i.decode().catch(() => 0))));
  const main = document.querySelector("article.bd-article, main:not(.bd-main)") || document.body;
  const levels = [...main.querySelectorAll("h1, h2, h3, h4, h5, h6")].map(h => +h.tagName[1]);
  return {
    images: [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.src),
    alts: [...document.querySelectorAll("figure img")].map(i => i.alt).filter(a => !a.trim() || a.includes("_images/")),
    formulas: [...document.querySelectorAll(".math")].filter(m => !m.querySelector("mjx-container")).map(m => m.textContent),
    formula_errors: [...document.querySelectorAll("mjx-merror")].map(m => m.textContent),
    levels: levels,
    over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    anchors: [...document.querySelectorAll("section[id]")].map(s => s.id).filter(id => /^id\\d+$/.test(id)),
    heads: [...document.querySelectorAll("main th:not([scope])")].map(h => h.textContent),
    description: document.querySelectorAll("meta[name=description]").length,
  };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


class Watched:
    """A page whose errors and outside requests are written down."""

    def __init__(self, browser: Browser, width: int = DESK, scheme: Any = "light", home: str = "file:", **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        self.context.set_default_timeout(180_000)  # a busy machine is no finding
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: request.url.startswith((home, "data:", "blob:")) or self.errors.append(request.url))
        if options.get("java_script_enabled", True):  # without scripts, those are not loaded
            self.page.on("requestfailed", lambda request: self.errors.append(f"failed: {request.url}"))
        self.page.on("response", lambda answer: answer.status >= 400 and self.errors.append(f"{answer.status} {answer.url}"))

    def look(self, address: str) -> dict[str, Any]:
        self.page.goto(address)
        if re.fullmatch(r"http://[^/]*/index.html", address):  # it leads to the front page
            self.page.wait_for_url("**/book/index.html")
        return self.page.evaluate(LOOK)

    def close(self) -> None:
        self.context.close()
        assert self.errors == []


def assert_shown(found: dict[str, Any]) -> None:
    levels = found.pop("levels")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert found.pop("description") == 1
    assert found.pop("over") <= 0, "the page scrolls sideways"
    assert not any(found.values()), {key: value for key, value in found.items() if value}


def test_the_book_is_built() -> None:
    assert PAGES, "build it with: make strict"
    assert WITH_CHARTS
    lock = json.loads((SITE.parents[1] / "book" / "figures.lock.json").read_text("utf-8"))
    shown = {figure for name in WITH_CHARTS for figure in re.findall(r'<figure class="[^"]*kv-figure[^"]*" id="fig-([^"]+)"', (SITE / name).read_text("utf-8"))}
    assert shown == {figure for figure, entry in lock["figures"].items() if "retired" not in entry}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_from_disk(browser: Browser, name: str, scheme: str) -> None:
    for width in (DESK, PHONE):
        watched = Watched(browser, width, scheme)
        assert_shown(watched.look((SITE / name).as_uri()))
        findings = Axe().run(watched.page, options=AXE | (SAME_COLOURS if width == PHONE else {})).response["violations"]
        assert not [(f["id"], f["nodes"][0]["html"], f["nodes"][0].get("failureSummary")) for f in findings]
        watched.close()


@pytest.mark.parametrize("name", [*PAGES, "index.html", "search.html"])
def test_page_served(browser: Browser, served: str, name: str) -> None:
    watched = Watched(browser, PHONE, home=served)
    found = watched.look(served + name)
    assert found["images"] == found["formulas"] == []
    watched.close()


def test_landing_pages(browser: Browser) -> None:
    assert LANDING
    for width, scheme in ((DESK, "light"), (PHONE, "dark")):
        watched = Watched(browser, width, scheme)
        for n, name in enumerate(LANDING):
            assert_shown(watched.look((SITE / name).as_uri()))
            if n % 8 == 0:  # one template makes them all
                assert not Axe().run(watched.page, options=AXE).response["violations"]
        watched.close()


@pytest.mark.parametrize("name", WITH_CHARTS)
def test_charts_can_be_explored_and_are_readable_without_scripts(browser: Browser, name: str) -> None:
    watched = Watched(browser, PHONE)
    page = watched.page
    page.goto((SITE / name).as_uri())
    figures = page.locator("figure.kv-figure")
    for n in range(figures.count()):
        figure = figures.nth(n)
        width = figure.locator("img").evaluate("i => i.getBoundingClientRect().width / i.naturalWidth")
        assert 14 * width >= SMALLEST_TEXT, f"{figure.get_attribute('id')}: the picture is too wide for a phone"
        figure.get_by_role("button", name=re.compile("^Explore")).click()
        figure.locator(".kv-live svg").wait_for()
        assert not figure.locator("img").is_visible()
    watched.close()
    plain = Watched(browser, java_script_enabled=False)
    plain.page.goto((SITE / name).as_uri())
    for link in plain.page.locator(".kv-bar a").all():
        assert (SITE / name).parent.joinpath(str(link.get_attribute("href")).split("#")[0]).resolve().is_file()
    assert plain.page.locator(".kv-bar a").count() == 6 * plain.page.locator("figure.kv-figure").count()
    plain.close()


def test_print_opens_the_data(browser: Browser) -> None:
    watched = Watched(browser)
    watched.page.goto((SITE / WITH_CHARTS[0]).as_uri())
    assert watched.page.locator(".kv-more details[open]").count() == 0
    watched.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert watched.page.locator(".kv-more details[open]").count() == watched.page.locator(".kv-more").count()
    watched.close()
