"""python -m tests.package.site: builds the documentation and searches it in a browser, from the disk and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.http.browser import Browser
from tests.package.build import ROOT

__all__ = ["check_site"]

QUERY = "percolator"
FOUND = "document.querySelectorAll('.md-search-result__item').length > 0"


def check_site(work: Path) -> None:
    """Exits with a message if the site cannot be built, fetches anything, or does not find a word that is in it."""
    site = work / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"mkdocs: {done.stdout}{done.stderr}")
    browser = Browser(work / "profile")
    try:
        browser.open(f"file://{site}/index.html")
        browser.click("label[for=__search]")
        browser.fill(".md-search__input", QUERY)
        browser.until(FOUND)
        fetched = [url for url in browser.requested if not url.startswith(("file:", "about:", "data:"))]
        if fetched or browser.complaints:
            sys.exit(f"the site fetches {fetched}; the browser complains: {browser.complaints}")
    finally:
        browser.close()
    print(f"the documentation is built, and its search finds {QUERY!r} without a server", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-pubsub-site-") as folder:
        check_site(Path(folder))
