"""Opens pages of the built site in headless Chromium, in light and dark, on a phone's screen and a
desktop's. Fails if a page overflows sideways, if the console has an error, if a colour scheme does
not take effect, or if the search does not find an entity. Writes a picture of each.

usage: python3 doc/site/browser.py SITE PICTURES
"""
import contextlib
import pathlib
import signal
import sys

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PAGES = {
    "start": "index.html",
    "guide": "doc/guarantees.html",
    "tables": "doc/benchmarks.html",
    "pictures": "doc/concepts.html",
    "class": "reference/client.html",
    "function": "reference/with_lock.html",
    "reference": "reference/index.html",
    "source": "source/include/holdfast/lock.hpp.html",
}
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}
# Queries, and the ends of the addresses that they find first.
QUERIES = {"lease": "reference/lease.html", "no_quorum": "doc/errors.html#no_quorum",
           "try acquire": "reference/lock.html#try_acquire",
           "G13": "doc/guarantees.html#g13-a-confirmed-release-leaves-no-lock"}
WAIT_SECONDS = 10


@contextlib.contextmanager
def browser():
    options = Options()
    # A container has no sandbox of its own for the browser, and little shared memory.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars", "--allow-file-access-from-files"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        yield driver
    finally:
        driver.quit()


def set_screen(driver, width, height, scheme):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})


def overflow(driver, width):
    """The widths of text and screen, and the elements that stick out."""
    return driver.execute_script("""
        const page = document.documentElement;
        if (page.scrollWidth <= page.clientWidth && innerWidth <= arguments[0]) return null;
        const out = [...document.querySelectorAll('body *')].filter((e) =>
            e.getBoundingClientRect().right > arguments[0] + 1 &&
            !e.closest('.scroll, pre, #results, .skip'));
        return `${Math.max(page.scrollWidth, innerWidth)} of ${page.clientWidth} px; ` +
            out.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(' | ');
        """, width)


def lightness(driver):
    """Of the ground, 0 to 255."""
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[colour.index("(") + 1:-1].split(",")[:3]) / 3


def console(driver):
    return [entry["message"] for entry in driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")]


def check_search(driver):
    field = driver.find_element(By.ID, "search")

    def first(_):
        links = driver.find_elements(By.CSS_SELECTOR, "#results a")
        return links[0].get_attribute("href") if links else ""

    for query, wanted in reversed(QUERIES.items()):
        field.clear()
        field.send_keys(query)
        try:
            # Earlier letters of the query may have shown other results.
            WebDriverWait(driver, WAIT_SECONDS, ignored_exceptions=[
                StaleElementReferenceException]).until(lambda d: first(d).endswith(f"/{wanted}"))
        except TimeoutException:
            yield f"the first result of the search for {query} is {first(driver)}, not {wanted}"
            return


def check_switch(driver):
    """The switch changes light to dark, also after the page is loaded again."""
    before = lightness(driver)
    driver.find_element(By.ID, "theme-button").click()
    driver.refresh()
    if abs(lightness(driver) - before) < 100:
        yield "the switch between light and dark changes nothing, or is forgotten"
    driver.execute_script("localStorage.clear()")
    driver.refresh()


def check_menu(driver):
    """On a phone the menu opens by its button, and leads to another page."""
    driver.find_element(By.ID, "menu-button").click()
    link = driver.find_element(By.CSS_SELECTOR, "#menu a[href$='quick-start.html']")
    if not link.is_displayed():
        yield "the menu does not open"
        return
    link.click()
    if not driver.current_url.endswith("quick-start.html"):
        yield f"the menu leads to {driver.current_url}"


def checks(driver, site, pictures):
    count = 0
    for screen, (width, height) in WIDTHS.items():
        for scheme in ("light", "dark"):
            set_screen(driver, width, height, scheme)
            for name, path in PAGES.items():
                at = f"{path}, {screen}, {scheme}"
                driver.get(f"file://{site / path}")
                wide = overflow(driver, width)
                if wide:
                    yield f"{at}: wider than the screen: {wide}"
                if (lightness(driver) < 128) != (scheme == "dark"):
                    yield f"{at}: the ground is not {scheme}"
                driver.save_screenshot(str(pictures / f"{name}-{screen}-{scheme}.png"))
                count += 1
                for message in console(driver):
                    yield f"{at}: {message}"
            driver.get(f"file://{site / PAGES['class']}")
            for fault in check_search(driver):
                yield f"{screen}, {scheme}: {fault}"
            driver.save_screenshot(str(pictures / f"search-{screen}-{scheme}.png"))
            wide = overflow(driver, width)
            if wide:
                yield f"search, {screen}, {scheme}: wider than the screen: {wide}"
        driver.get(f"file://{site / PAGES['start']}")
        for fault in check_switch(driver):
            yield f"{screen}: {fault}"
        if screen == "phone":
            for fault in check_menu(driver):
                yield f"{screen}: {fault}"
            driver.find_element(By.ID, "menu-button").click()
            driver.save_screenshot(str(pictures / "menu-phone.png"))
        for message in console(driver):
            yield f"{screen}: {message}"
    # All pages at the width of a phone, without pictures.
    set_screen(driver, *WIDTHS["phone"], "light")
    for file in sorted(site.rglob("*.html")):
        if "source" in file.relative_to(site).parts[:1]:
            continue
        driver.get(f"file://{file}")
        count += 1
        wide = overflow(driver, WIDTHS["phone"][0])
        if wide:
            yield f"{file.relative_to(site)}, phone: wider than the screen: {wide}"
    print(f"{count} pages were opened; pictures are in {pictures}")


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    site, pictures = (pathlib.Path(argument).resolve() for argument in arguments)
    for path in PAGES.values():
        if not (site / path).is_file():
            sys.exit(f"there is no page {site / path}")
    pictures.mkdir(parents=True, exist_ok=True)
    # So that the browser ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with browser() as driver:
        found = list(checks(driver, site, pictures))
    if found:
        sys.exit("in the browser:\n" + "\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
