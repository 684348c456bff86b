"""python -m tests.package.site: builds the documentation, follows its links and opens it in a browser, without the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from tests.http.browser import Browser
from tests.package.build import ROOT

__all__ = ["check_site"]

QUERY = "percolator"
DARK = "document.body.getAttribute('data-md-color-scheme')"
"""The theme's name of it is slate."""
MISSING = "[...document.images].filter((each) => each.complete && !each.naturalWidth).map((each) => each.src)"
TARGET = re.compile(r'(?:href|src)="([^"#?:]+)"')
READY = "document.querySelector('.md-search-result__meta').textContent.includes('Type')"
"""The search has read its index."""
FOUND = "document.querySelectorAll('.md-search-result__item').length > 0"


def check_site(work: Path) -> None:
    """Exits with a message if the site cannot be built, has a broken link, fetches anything, does not find a word that is in it, or is
    not dark where the reader's system is."""
    site = work / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"mkdocs: {done.stdout}{done.stderr}")
    if broken := broken_links(site):
        sys.exit(f"links of the site lead nowhere: {broken}")
    browser = Browser(work / "profile")
    try:
        for scheme, named in (("dark", "slate"), ("light", "default")):
            browser.scheme(scheme)
            browser.open(f"file://{site}/http.html")
            if (shown := browser.run(DARK)) != named:
                sys.exit(f"the site is {shown!r} where the reader's system is {scheme}")
        if missing := browser.run(MISSING):
            sys.exit(f"pictures of the site are missing: {missing}")
        browser.open(f"file://{site}/index.html")
        browser.click("label[for=__search]")
        browser.until(READY)
        browser.fill(".md-search__input", QUERY)
        browser.key("End", 35)  # the theme looks when a key is released
        browser.until(FOUND)
        fetched = [url for url in browser.requested if not url.startswith(("file:", "about:", "data:"))]
        if fetched or browser.complaints:
            sys.exit(f"the site fetches {fetched}; the browser complains: {browser.complaints}")
    finally:
        browser.close()
    print(f"the documentation is built, and its search finds {QUERY!r} without a server", flush=True)


def broken_links(site: Path) -> list[str]:
    """Every link and picture within the site that leads to no file of it."""
    return [
        f"{page.relative_to(site)}: {target}"
        for page in sorted(site.rglob("*.html"))
        if page.name != "404.html"  # made for a web server: its links begin at the root
        for target in TARGET.findall(page.read_text())
        if not (page.parent / unquote(target)).exists()
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-pubsub-site-") as folder:
        check_site(Path(folder))
