"""The frame of the site: pages, their addresses, the menu, and the index of the search."""
import html
import json
import os
import pathlib
import re
import string

import lxml.html

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Colours that pictures of the guide have, and the names that the style sheet gives them in light
# and dark. `fill='#ffffff'` is a special case: see drawn().
COLOURS = {
    "#1b1f24": "ink", "#57606a": "grey", "#d0d7de": "rule", "#f6f8fa": "soft", "#eaeef2": "soft2",
    "#1f6feb": "blue", "#8c959f": "bar", "#bf8700": "amber",
}


def page_of(path):
    """The page that a Markdown file of the repository becomes."""
    folder, name = os.path.split(path)
    name = "index.html" if name == "README.md" else name[:-len(".md")] + ".html"
    return os.path.join(folder, name)


def slug(text):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def drawn(svg, name, kind="picture"):
    """An SVG that is part of a page: its colours follow the page. Refuses unknown colours."""
    svg = re.sub(r"<\?xml.*?\?>", "", svg).strip()
    # The white ground is left out; other white is text on a coloured bar.
    svg = re.sub(r"<rect width='\d+' height='\d+' fill='#ffffff'/>\n?", "", svg, count=1)
    svg = svg.replace("'#ffffff'", "'var(--on-blue)'")

    def named(found):
        if found[0].lower() not in COLOURS:
            raise SystemExit(f"{name} has the colour {found[0]}, which has no dark counterpart; "
                             f"give it one in {os.path.relpath(__file__, ROOT)}")
        return f"var(--{COLOURS[found[0].lower()]})"

    svg = re.sub(r"#[0-9a-fA-F]{6}\b", named, svg)
    # An id counts in the whole page.
    prefix = slug(pathlib.Path(name).stem)
    svg = re.sub(r"\bid='(\w+)'", rf"id='{prefix}-\1'", svg)
    svg = re.sub(r"url\(#(\w+)\)", rf"url(#{prefix}-\1)", svg)
    return f'<span class="scroll {kind}" tabindex="0">{svg}</span>'


class Page:
    def __init__(self, path, title, body, kind, contents=()):
        self.path, self.title, self.body, self.kind = path, title, body, kind
        self.contents = list(contents)  # level, anchor, text


class Site:
    def __init__(self, output):
        self.output = pathlib.Path(output)
        self.pages = {}
        self.sources = set()  # paths in the repository that a page links to
        self.names = {}       # names of the program: address in the site

    def add(self, page):
        if page.path in self.pages:
            raise SystemExit(f"two pages are {page.path}: {page.title}")
        self.pages[page.path] = page

    @staticmethod
    def between(page, target):
        """The address of a file of the site as seen from a page."""
        path, mark, anchor = target.partition("#")
        return os.path.relpath(path, os.path.dirname(page) or ".") + mark + anchor

    def repository(self, page, path, anchor=""):
        """The address for a file or folder of the repository, as seen from a page of the site.
        None if there is no such file."""
        path = os.path.normpath(path)
        if path.startswith(("..", "/")) or not (ROOT / path).exists():
            return None
        # The guide has no page for the README.md of a room: there it is one source of many.
        in_guide = path.split(os.sep)[0] != "src"
        if in_guide and (ROOT / path / "README.md").is_file():
            path = os.path.join(path, "README.md")
        if in_guide and path.endswith(".md"):
            target = os.path.normpath(page_of(path))
        else:
            self.sources.add(path)
            target = os.path.join("source", path)
            target += "/index.html" if (ROOT / path).is_dir() else ".html"
        return self.between(page, target + (f"#{anchor}" if anchor else ""))

    def code(self, page, text):
        """The address for a name in code: an entity, or a file of the repository. Else None."""
        name = re.sub(r"\(.*\)$", "()", text.removeprefix("holdfast::"))
        names = self.names
        target = names.get(name) or names.get(name.removesuffix("()")) or names.get(f"{name}()")
        # A single plain word is as often something else: `lock` is a command, too.
        if target and re.search(r"::|_|\(\)$", text):
            return self.between(page, target)
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)+", text) and not text.startswith("build/"):
            return self.repository(page, text)
        return None

    def menu(self, page, groups):
        out = []
        for name, entries in groups:
            open_at_first = not entries[0][0].startswith("reference/")
            inside = any(path == page.path for path, _ in entries)
            links = []
            for path, title in entries:
                here = ' aria-current="page"' if path == page.path else ""
                links.append(f'<li><a href="{self.between(page.path, path)}"{here}>'
                             f"{html.escape(title)}</a></li>")
            state = " open" if inside or open_at_first else ""
            out.append(f"<details{state}><summary>{html.escape(name)}</summary>"
                       f"<ul>{''.join(links)}</ul></details>")
        return "\n".join(out)

    def write(self, groups):
        template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
        for page in self.pages.values():
            contents = [f'<li class="level{level}"><a href="#{anchor}">{html.escape(text)}</a></li>'
                        for level, anchor, text in page.contents]
            text = template.substitute(
                title=html.escape(page.title), root=self.between(page.path, ".") + "/",
                menu=self.menu(page, groups), body=page.body, kind=page.kind,
                contents=('<details class="contents" open><summary>On this page</summary>'
                          f"<ul>{''.join(contents)}</ul></details>") if len(contents) > 1 else "")
            file = self.output / page.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def write_search(self):
        """One entry for each heading: address, page, heading, text. A script and not JSON, because
        a page that is opened as a file may not fetch."""
        entries = []
        for page in self.pages.values():
            if page.kind == "source":
                continue
            entry = [page.path, page.title, "", []]
            found = [entry]
            for element in lxml.html.fragment_fromstring(page.body, "div").iter():
                if not isinstance(element.tag, str):
                    continue
                # A value of an enumeration, and a paragraph that explains a name, count like a
                # heading.
                if re.fullmatch("h[1-6]|dt|p|li", element.tag) and element.get("id"):
                    named = element.find(".//strong") if element.tag in ("p", "li") else element
                    heading = named.text_content().removesuffix("#").strip()
                    if element.tag != "h1":
                        found.append([f"{page.path}#{element.get('id')}", page.title, heading, []])
                    if named is element:
                        continue
                if element.get("class") == "header":
                    continue
                elif element.tag in ("p", "li", "td", "th", "pre", "dt", "dd"):
                    # The children that are blocks speak for themselves.
                    inner = [element.text or ""]
                    for child in element:
                        if child.tag not in ("p", "ul", "ol", "pre", "li", "div", "table", "dl"):
                            inner.append(child.text_content())
                        inner.append(child.tail or "")
                    found[-1][3].append("".join(inner))
            for address, title, heading, texts in found:
                text = re.sub(r"\s+", " ", " ".join(texts)).strip()
                if text or heading:
                    entries.append([address, title, heading, text])
        (self.output / "search-data.js").write_text(
            "window.siteEntries = " + json.dumps(entries, ensure_ascii=False) + ";\n",
            encoding="utf-8")
        return len(entries)
