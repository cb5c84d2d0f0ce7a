"""Checks the links of the built site: each leads to a file there, and to an anchor in it. Nothing
is loaded from elsewhere.

usage: python3 doc/site/links.py SITE
"""
import os
import pathlib
import re
import sys
import urllib.parse

import lxml.html

EXTERNAL = re.compile(r"(https?|mailto):")


def read(file):
    """The anchors of a page, its links, and the addresses of all that it loads."""
    tree = lxml.html.parse(str(file), parser=lxml.html.HTMLParser(encoding="utf-8")).getroot()
    anchors = [element.get("id") for element in tree.iter() if element.get("id")]
    links = [(element.get("href"), False) for element in tree.iter("a") if element.get("href")]
    loaded = [(element.get(name), True) for element in tree.iter() for name in ("src", "href")
              if element.get(name) and element.tag != "a"]
    return anchors, links + loaded


def faults(site):
    pages = {file: read(file) for file in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages"
    for file, (anchors, links) in pages.items():
        page = file.relative_to(site)
        for anchor in sorted({a for a in anchors if anchors.count(a) > 1}):
            yield f"{page}: the anchor {anchor} is there twice"
        for link, loaded in links:
            if link.startswith("data:"):
                continue
            if EXTERNAL.match(link) and not loaded:
                continue
            if re.match(r"[a-z+]+:|//|/", link):
                yield f"{page}: {link} is neither in the site nor on the web"
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = file if not path else pathlib.Path(os.path.normpath(file.parent / path))
            if not target.is_relative_to(site) or not target.is_file():
                yield f"{page}: {link} leads to no page"
            elif anchor and anchor not in pages.get(target, ((), ()))[0]:
                yield f"{page}: {link} leads to no heading of {target.relative_to(site)}"
    count = sum(len(links) for _, links in pages.values())
    print(f"{count} links of {len(pages)} pages were checked")


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    found = list(faults(pathlib.Path(arguments[0]).resolve()))
    if found:
        sys.exit("broken links:\n" + "\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
