"""A headless Chromium for the tests and the pictures of the report."""

import shutil

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

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
