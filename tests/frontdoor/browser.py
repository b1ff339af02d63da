"""Headless Chromium, by Selenium, for checks of HTML pages."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from nearkv.doctor import find_chromium

_TIMEOUT_S = 60.0
_ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"),
)
# Plots lie in shadow trees, which a plain query does not enter.
_COUNT_IN_SHADOWS = """
const count = (tree) => [...tree.querySelectorAll("*")].reduce(
  (sum, element) => sum + (element.shadowRoot ? count(element.shadowRoot) : 0),
  tree.querySelectorAll(arguments[0]).length);
return count(document);"""


def why_no_browser() -> str:
    """What is missing here for open_page(); nothing where it works."""
    if find_chromium() and shutil.which("chromedriver"):
        return ""
    return "no Chromium with its chromedriver here; ./nearkv doctor says what mends it"


class Page:
    """A loaded page: what its console said, and what it asked of the network."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    @property
    def errors(self) -> list[str]:
        """Errors of the console, uncaught exceptions among them, since this was last asked."""
        entries = self._driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for since this was last asked."""
        events: list[dict[str, Any]] = [
            json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")
        ]
        sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def count(self, selector: str) -> int:
        """How many elements match a CSS selector, those in shadow trees included."""
        return self._driver.execute_script(_COUNT_IN_SHADOWS, selector)

    def wait_for(self, selector: str, at_least: int) -> None:
        """Returns when so many elements match; raises TimeoutException when they never do."""
        WebDriverWait(self._driver, _TIMEOUT_S).until(lambda _: self.count(selector) >= at_least)


@contextmanager
def open_page(path: Path) -> Iterator[Page]:
    """Loads a local page with the network off."""
    options = webdriver.ChromeOptions()
    options.binary_location = find_chromium()
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.get_log("performance")
        driver.set_network_conditions(
            offline=True, latency=0, download_throughput=0, upload_throughput=0
        )
        driver.get(path.resolve().as_uri())
        yield Page(driver)
