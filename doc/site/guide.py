"""The guide: a page for each Markdown file."""
import html
import os
import re

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from site_frame import Page, ROOT, drawn, page_of, slug

GUARANTEES = "doc/guarantees.md"


def coloured(code, language):
    """The inside of a <pre>: code with classes of pygments, or as it is."""
    try:
        lexer = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        lexer = None
    if lexer is None:
        return html.escape(code)
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


class Guide:
    def __init__(self, site):
        self.site = site
        self.markdown = MarkdownIt("commonmark", {"html": False}).enable(
            ["table", "strikethrough"])
        for name in ("fence", "code_block", "code_inline", "image", "link_open", "table_open",
                     "table_close", "text"):
            self.markdown.add_render_rule(name, self.rule(getattr(self, name)))

        self.promises = self.anchors_of_promises()

    @staticmethod
    def rule(method):
        # The library binds each rule to its renderer.
        return lambda renderer, *arguments: method(renderer, *arguments)

    def fence(self, _, tokens, index, *__):
        language = tokens[index].info.split()[0] if tokens[index].info.strip() else ""
        return (f'<pre tabindex="0"><code>{coloured(tokens[index].content, language)}</code></pre>'
                "\n")

    code_block = fence

    def code_inline(self, _, tokens, index, options, env):
        text = tokens[index].content
        code = f"<code>{html.escape(text)}</code>"
        address = self.site.code(env["page"], text)
        return f'<a href="{address}">{code}</a>' if address else code

    def image(self, _, tokens, index, options, env):
        source = tokens[index].attrs["src"]
        path = os.path.normpath(os.path.join(os.path.dirname(env["path"]), source))
        if not path.endswith(".svg"):
            raise SystemExit(f"{env['path']}: {source} is no SVG, and so has no dark form")
        return drawn((ROOT / path).read_text(encoding="utf-8"), path)

    def link_open(self, renderer, tokens, index, options, env):
        target = tokens[index].attrs["href"]
        if not re.match(r"[a-z]+:|#", target):
            path, _, anchor = target.partition("#")
            path = os.path.join(os.path.dirname(env["path"]), path)
            tokens[index].attrs["href"] = (
                self.site.repository(env["page"], path, anchor) or target)
        return renderer.renderToken(tokens, index, options, env)

    def anchors_of_promises(self):
        """G1, N1 and so on: the names of headings and items of the guarantees."""
        found = {}
        for token, following in self.pairs(self.parse(GUARANTEES)):
            if following.type != "inline":
                continue
            text = self.text_of(following)
            name = re.match(r"[GN]\d+\b", text)
            if name and token.type == "heading_open":
                found[name[0]] = slug(text)
            elif name and any(child.type == "strong_open" for child in following.children[:2]):
                found[name[0]] = slug(name[0])  # see with_terms()
        return found

    def text(self, _, tokens, index, options, env):
        """Text, with links to the promises that it names."""
        def linked(found):
            anchor = self.promises.get(found[0])
            if anchor is None:
                return found[0]
            address = self.site.between(env["page"], f"{page_of(GUARANTEES)}#{anchor}")
            return f'<a href="{address}">{found[0]}</a>'
        text = html.escape(tokens[index].content, quote=False)
        if any(t.type == "link_open" for t in tokens[:index]) and not any(
                t.type == "link_close" for t in tokens[:index]):
            return text
        # A heading or an item of the guarantees that begins with its own name is no link.
        if env["path"] == GUARANTEES and (
                index == 0 or (index == 2 and tokens[1].type == "strong_open")):
            begin = re.match(r"[GN]\d+\b|", text)[0]
            return begin + re.sub(r"\b[GN]\d+\b", linked, text[len(begin):])
        return re.sub(r"\b[GN]\d+\b", linked, text)

    @staticmethod
    def table_open(*_):
        return '<div class="scroll" tabindex="0"><table>\n'

    @staticmethod
    def table_close(*_):
        return "</table></div>\n"

    def title(self, path):
        for token, following in self.pairs(self.parse(path)):
            if token.type == "heading_open":
                return self.text_of(following)
        raise SystemExit(f"{path} has no heading")

    def parse(self, path):
        return self.markdown.parse((ROOT / path).read_text(encoding="utf-8"))

    @staticmethod
    def pairs(tokens):
        return zip(tokens, tokens[1:])

    @staticmethod
    def text_of(inline):
        return "".join(t.content for t in inline.children if t.type in ("text", "code_inline"))

    def page(self, path, more=None):
        """The page of a file; `more` makes (HTML, contents) for its end."""
        tokens = self.parse(path)
        env = {"page": os.path.normpath(page_of(path)), "path": path}
        used, contents, title = {}, [], None
        for token, following in self.pairs(tokens):
            if token.type != "heading_open":
                continue
            text = self.text_of(following)
            anchor = slug(text)
            used[anchor] = used.get(anchor, -1) + 1
            if used[anchor]:
                anchor += f"-{used[anchor]}"
            token.attrs["id"] = anchor
            level = int(token.tag[1])
            title = title or text
            if level in (2, 3):
                contents.append((level, anchor, text))
        self.mark_links(tokens, env)
        body = self.markdown.renderer.render(tokens, self.markdown.options, env)
        body = re.sub(r'<h([2-6]) id="([^"]+)">(.*?)</h\1>',
                      r'<h\1 id="\2">\3<a class="anchor" href="#\2" aria-label="Link here">#</a>'
                      r"</h\1>", body)
        body = self.with_terms(body, used)
        if more:
            added, entries = more(env["page"])
            body += added
            contents += entries
        # Long pages list their chapters alone.
        if len(contents) > 24:
            contents = [entry for entry in contents if entry[0] == 2]
        self.site.add(Page(env["page"], title, body, "guide", contents))

    @staticmethod
    def with_terms(body, used):
        """An anchor for each paragraph and item that begins with a name in bold, as those of errors
        and options do: the search leads there."""
        def anchored(found):
            anchor = slug(found[3])
            if anchor in used:
                return found[0]
            used[anchor] = 0
            return f'<{found[1]} id="{anchor}">{found[2]}'
        body = re.sub(r"<(p|li)>(\s*<strong>([A-Z]\d+)</strong>)", anchored, body)
        return re.sub(r"<(p|li)>(\s*<strong>(?:<a [^>]*>)?<code>([\w.:-]+)</code>)", anchored,
                      body)

    def mark_links(self, tokens, env):
        """Code within a link is no link of its own."""
        for token in tokens:
            depth = 0
            for child in token.children or ():
                if child.type == "link_open":
                    depth += 1
                elif child.type == "link_close":
                    depth -= 1
                elif child.type == "code_inline" and depth:
                    child.type = "code_in_link"
        self.markdown.renderer.rules["code_in_link"] = (
            lambda tokens, index, *_: f"<code>{html.escape(tokens[index].content)}</code>")
