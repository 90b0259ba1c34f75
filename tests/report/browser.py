"""A headless Chromium for the tests and the pictures of the report."""

import shutil

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",  # no smooth scrolling while a test clicks
    "--hide-scrollbars",
    "--window-size=1440,900",
)


class NoChromiumError(Exception):
    """There is no Chromium to start."""


def start_chromium(profile):
    """Start Chromium on a fresh profile folder."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise NoChromiumError("chromium and chromedriver are not on the path; apt install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=ChromeService(driver))


def open_report(browser, path):
    """Open a report and wait until its script has run to the end.

    The driver may come back from a page of several megabytes before its script has begun.
    """
    browser.get(path.as_uri())
    # The list of contents is the last thing that the script writes; the index of several labels has no script.
    finished = """
        return location.href === arguments[0] && document.readyState === 'complete'
            && (!document.getElementById('report-data') || document.querySelector('#contents a') !== null)
    """
    WebDriverWait(browser, 60).until(
        lambda page: page.execute_script(finished, path.as_uri()),
        message=f"the script of {path.name} did not run to its end",
    )
