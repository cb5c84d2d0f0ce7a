"""Builds the site.

usage: python3 doc/site/build.py XML OUTPUT
  XML      the folder with the XML of Doxygen
  OUTPUT   the folder of the site; its content is replaced
"""
import functools
import html
import pathlib
import shutil
import sys

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from guide import Guide
from plots import plots
from reference import Reference
from site_frame import HERE, Page, ROOT, Site, page_of

# The menu. A page of doc/ that is not here stands under "More".
CHAPTERS = (
    ("First steps", ("README.md", "doc/install.md", "doc/quick-start.md", "doc/recipes.md",
                     "example/README.md", "doc/concepts.md")),
    ("Guarantees", ("doc/guarantees.md", "doc/safety.md", "doc/reliability.md")),
    ("Operation", ("doc/production.md", "doc/options.md", "doc/addresses.md", "doc/errors.md",
                   "doc/monitoring.md", "doc/incidents.md", "doc/command.md")),
    ("Background", ("doc/benchmarks.md", "doc/comparison.md", "doc/compilers.md",
                    "doc/versions.md")),
    ("Project", ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
)
LUNR = pathlib.Path("/usr/share/javascript/lunr/lunr.min.js")
LARGEST_SOURCE = 300_000  # bytes


def add_guide(site):
    guide = Guide(site)
    groups = [(name, [path for path in paths if (ROOT / path).exists()])
              for name, paths in CHAPTERS]
    known = {path for _, paths in groups for path in paths}
    rest = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "doc").glob("*.md"))
    groups.append(("More", [path for path in rest if path not in known]))
    groups.append(("Internals", sorted(str(file.relative_to(ROOT))
                                       for file in (ROOT / "doc/internals").glob("*.md"))))
    menu = []
    for name, paths in groups:
        entries = []
        for path in paths:
            if path == "doc/benchmarks.md":
                guide.page(path, lambda page: plots(site, page))
            else:
                guide.page(path)
            entries.append((page_of(path), guide.title(path)))
        if entries:
            menu.append((name, entries))
    return menu


@functools.lru_cache(maxsize=None)
def lexer_for(name):
    try:
        return get_lexer_for_filename(name, stripnl=False)
    except ClassNotFound:
        return None


def source_page(site, path):
    page = f"source/{path}.html"
    file = ROOT / path
    if file.stat().st_size > LARGEST_SOURCE:
        raise SystemExit(f"{path} is too large to be shown on a page, and a page links to it")
    text = file.read_text(encoding="utf-8", errors="replace")
    # The end of a name decides, or a whole name such as CMakeLists.txt.
    known = file.suffix in (".cpp", ".hpp", ".sh", ".py")
    lexer = lexer_for(f"x{file.suffix}" if known else file.name)
    code = highlight(text, lexer, HtmlFormatter(nowrap=True)) if lexer else html.escape(text)
    lines = "".join(f'<span class="line" id="line-{number}">{line}\n</span>'
                    for number, line in enumerate(code.rstrip("\n").split("\n"), 1))
    site.add(Page(page, path, f"<h1>{html.escape(path)}</h1>"
                  f'<pre class="source" tabindex="0"><code>{lines}</code></pre>', "source"))


def folder_page(site, path):
    page = f"source/{path}/index.html"
    entries = []
    for entry in sorted((ROOT / path).iterdir(), key=lambda e: (e.is_file(), e.name)):
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        name = f"<code>{html.escape(entry.name)}</code>"
        # Folders in it have a page only if the guide links to them.
        if entry.is_file():
            name = f'<a href="{site.repository(page, f"{path}/{entry.name}")}">{name}</a>'
        entries.append(f"<li>{name}</li>")
    site.add(Page(page, path, f"<h1>{html.escape(path)}</h1><ul>{''.join(entries)}</ul>",
                  "source"))


def add_sources(site):
    """Files that pages link to, and the files in folders that pages link to."""
    done = set()
    while site.sources - done:
        for path in sorted(site.sources - done):
            done.add(path)
            (folder_page if (ROOT / path).is_dir() else source_page)(site, path)
    return len(done)


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    xml, output = (pathlib.Path(argument) for argument in arguments)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    site = Site(output)
    reference = Reference(site, xml)  # first, as the guide links to its names
    menu = add_guide(site)
    reference.pages()
    sources = add_sources(site)
    site.write(menu + reference.menu())
    entries = site.write_search()
    for name in ("site.css", "site.js", "theme.js"):
        shutil.copy(HERE / name, output / name)
    shutil.copy(LUNR, output / "lunr.js")
    print(f"{len(site.pages)} pages, {sources} of them sources; "
          f"{entries} entries for the search")


if __name__ == "__main__":
    main(sys.argv[1:])
