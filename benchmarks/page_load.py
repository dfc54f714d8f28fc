"""How long a report page takes until it can be used, and how large it is.

The run has six rungs, three arms and thirty repeats; its page is opened by Chromium in a context of
its own each time, so nothing is cached. ``python -m benchmarks.page_load [TIMES]``
"""

import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from reproduce.running import pipeline
from tests.synthetic import make_long_run

TIMINGS = """() => {
  const entry = performance.getEntriesByType("navigation")[0];
  return [entry.domInteractive, entry.domContentLoadedEventEnd, entry.loadEventEnd];
}"""


def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run = make_long_run(Path(scratch) / "run")
        page_file = pipeline.execute(run, lambda _: None, measuring=False)
        print(f"{len(run.records())} repeats, {page_file.stat().st_size:,} bytes")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            seen = []
            for _ in range(times):
                context = browser.new_context()
                page = context.new_page()
                page.goto(page_file.as_uri(), wait_until="load")
                page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd")
                seen.append(page.evaluate(TIMINGS))
                context.close()
            browser.close()
    for name, values in zip(
        ("interactive", "script done", "loaded"), zip(*seen, strict=True), strict=True
    ):
        print(
            f"{name:12} median {statistics.median(values):6.0f} ms, slowest {max(values):6.0f} ms"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
