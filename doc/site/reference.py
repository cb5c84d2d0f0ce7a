"""The reference: pages made of the XML that Doxygen writes for the headers."""
import html
import pathlib
import re
import xml.etree.ElementTree as ElementTree

from site_frame import Page

NAMESPACE = "holdfast"
HEADERS = "include"
# Signs in the names of operators, for anchors.
SIGNS = {"=": "equals", "<": "less", ">": "greater", "!": "not", "&": "and", "*": "star",
         "(": "call", ")": "", "+": "plus", "-": "minus", "[": "at", "]": "", "~": "destroy-",
         " ": "-", ":": "-"}
BLOCKS = {"itemizedlist", "orderedlist", "simplesect", "parameterlist", "programlisting", "table",
          "blockquote", "verbatim"}
HIGHLIGHTS = {"comment": "c1", "keyword": "k", "keywordtype": "kt", "keywordflow": "k",
              "preprocessor": "cp", "stringliteral": "s", "charliteral": "s"}


def anchor_of(name):
    return "".join(SIGNS.get(c, c) for c in name).strip("-")


def plain(element):
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def tidy(code):
    """The spaces of the project's style, which Doxygen changes in types."""
    code = re.sub(r"&lt; ", "&lt;", code)
    code = re.sub(r" &gt;", "&gt;", code)
    code = re.sub(r"\s+(&amp;(?:&amp;)?|\*)", r"\1", code)
    return re.sub(r"  +", " ", code).strip()


def width_of(code):
    return len(html.unescape(re.sub(r"<[^>]*>", "", code)))


class Entity:
    """A compound, or a member: a name, an address in the site, and its XML."""

    def __init__(self, node, name, path, anchor=""):
        self.node, self.name, self.path, self.anchor = node, name, path, anchor

    @property
    def address(self):
        return self.path + (f"#{self.anchor}" if self.anchor else "")


class Reference:
    def __init__(self, site, folder):
        self.site = site
        self.by_id = {}
        self.classes = []    # Entity, members
        self.enums = []
        self.functions = {}  # name: entities
        self.others = []     # types, constants, macros
        self.undocumented = []
        files = {file.stem: ElementTree.parse(file).getroot().find("compounddef")
                 for file in pathlib.Path(folder).glob("*.xml") if file.stem != "index"}
        self.compounds = {name: node for name, node in files.items() if node is not None}
        self.read()

    # ------------------------------------------------------------------ names and addresses

    def read(self):
        for node in self.compounds.values():
            kind, name = node.get("kind"), node.findtext("compoundname")
            if kind in ("class", "struct") and node.get("prot") == "public" and (
                    name.startswith(NAMESPACE + "::")):
                self.read_class(node, name.removeprefix(NAMESPACE + "::"))
            elif kind == "namespace" and name == NAMESPACE:
                self.namespace = node
                self.by_id[node.get("id")] = Entity(node, name, "reference/index.html")
                self.read_namespace(node)
            elif kind == "file":
                for member in node.iter("memberdef"):
                    if member.get("kind") == "define":
                        self.add_other(member)
        self.classes.sort(key=lambda c: c[0].name)
        self.enums.sort(key=lambda e: e.name)
        self.others.sort(key=lambda e: e.name)

    def read_class(self, node, name):
        entity = Entity(node, name, f"reference/{name.replace('::', '.')}.html")
        self.by_id[node.get("id")] = entity
        self.site.names[name] = entity.path
        members, used = [], {"members": 0}
        for member in node.iter("memberdef"):
            if member.get("prot") == "private" or member.find("name") is None:
                continue
            title = member.findtext("name")
            if member.get("kind") == "friend" and not member.findtext("argsstring"):
                continue
            anchor = anchor_of(title)
            used[anchor] = used.get(anchor, 0) + 1
            if used[anchor] > 1:
                anchor += f"-{used[anchor]}"
            found = Entity(member, title, entity.path, anchor)
            members.append(found)
            self.by_id[member.get("id")] = found
            self.site.names.setdefault(f"{name}::{title}", found.address)
            if member.get("kind") == "function" and title != name:
                self.short(f"{title}()", found)
            self.read_values(found, f"{name}::{title}::")
        self.classes.append((entity, members))

    def short(self, name, entity):
        """A name without its class counts while it is the only one."""
        known = self.site.names.get(name, entity.address)
        same = known.split("#")[0] == entity.path
        self.site.names[name] = known if same else ""

    def read_values(self, entity, prefix):
        for value in entity.node.findall("enumvalue"):
            name = value.findtext("name")
            plain_page = not entity.anchor
            found = Entity(value, name, entity.path,
                           name if plain_page else f"{entity.anchor}-{name}")
            self.by_id[value.get("id")] = found
            self.site.names[prefix + name] = found.address

    def read_namespace(self, node):
        for member in node.iter("memberdef"):
            kind, name = member.get("kind"), member.findtext("name")
            if kind == "enum":
                entity = Entity(member, name, f"reference/{name}.html")
                self.enums.append(entity)
                self.by_id[member.get("id")] = entity
                self.site.names[name] = entity.path
                self.read_values(entity, f"{name}::")
            elif kind == "function":
                overloads = self.functions.setdefault(name, [])
                path = f"reference/{anchor_of(name)}.html"
                entity = Entity(member, name, path, f"overload-{len(overloads) + 1}")
                overloads.append(entity)
                self.by_id[member.get("id")] = entity
                self.site.names.setdefault(name, path)
                self.short(f"{name}()", entity)
            else:
                self.add_other(member)

    def add_other(self, member):
        name = member.findtext("name")
        entity = Entity(member, name, "reference/types-and-constants.html", name)
        self.others.append(entity)
        self.by_id[member.get("id")] = entity
        self.site.names[name] = entity.address

    # ------------------------------------------------------------------ descriptions

    def link(self, page, node):
        text = html.escape("".join(node.itertext()), quote=False)
        entity = self.by_id.get(node.get("refid"))
        if entity is None:
            return text
        return f'<a href="{self.site.between(page, entity.address)}">{text}</a>'

    def text(self, page, text):
        """Text, with links to pages of the guide that it names, and to entities that Doxygen did
        not find because they are of another class."""
        def linked(found):
            name = found[0]
            address = (self.site.repository(page, name) if "/" in name
                       else self.site.code(page, name))
            return f'<a href="{address}">{name}</a>' if address else name
        names = (r"\bdoc/[\w/-]+(?:\.md\b)?|(?<![\w.:>])\w+\(\)|"
                 r"(?<![\w.:])[a-z]+(?:_[a-z]+)+\b")
        return re.sub(names, linked, html.escape(text or "", quote=False))

    def inline(self, page, node):
        out = [self.text(page, node.text)]
        for child in node:
            out.append(self.element(page, child))
            out.append(self.text(page, child.tail))
        return "".join(out)

    def element(self, page, node):
        tag = node.tag
        if tag == "ref":
            return self.link(page, node)
        if tag == "computeroutput":
            return f"<code>{self.inline(page, node)}</code>"
        if tag in ("emphasis", "bold"):
            name = "em" if tag == "emphasis" else "strong"
            return f"<{name}>{self.inline(page, node)}</{name}>"
        if tag == "ulink":
            return f'<a href="{html.escape(node.get("url"))}">{self.inline(page, node)}</a>'
        if tag == "linebreak":
            return "<br>"
        if tag == "sp":
            return " "
        if tag in ("nonbreakablespace", "ndash", "mdash"):
            return {"n": "&#160;", "d": "&#8211;", "m": "&#8212;"}[tag[0]]
        if tag in ("itemizedlist", "orderedlist"):
            name = "ul" if tag == "itemizedlist" else "ol"
            items = (f"<li>{self.blocks(page, item, True)}</li>" for item in node)
            return f"<{name}>{''.join(items)}</{name}>"
        if tag == "programlisting":
            lines = (self.code_line(page, line) for line in node)
            return f'<pre tabindex="0"><code>{chr(10).join(lines)}</code></pre>'
        if tag == "simplesect":
            title = node.findtext("title") or node.get("kind").capitalize()
            paragraphs = "".join(self.paragraph(page, p, True) for p in node.findall("para"))
            return (f'<div class="section"><strong>{html.escape(title)}</strong>'
                    f"<div>{paragraphs}</div></div>")
        if tag == "parameterlist":
            return self.parameters(page, node)
        if tag == "table":
            return self.table(page, node)
        if tag == "para":
            return self.paragraph(page, node)
        raise SystemExit(f"reference.py does not know the element <{tag}> of Doxygen, in {page}")

    def code_line(self, page, line):
        out = []
        for part in line.findall("highlight"):
            text = self.code(page, part)
            name = HIGHLIGHTS.get(part.get("class"))
            out.append(f'<span class="{name}">{text}</span>' if name else text)
        return "".join(out)

    def code(self, page, node):
        """Code, with the links of Doxygen alone."""
        out = [html.escape(node.text or "", quote=False)]
        for child in node:
            out.append(" " if child.tag == "sp" else self.link(page, child))
            out.append(html.escape(child.tail or "", quote=False))
        return "".join(out)

    def parameters(self, page, node):
        title = {"param": "Parameters", "exception": "Throws", "retval": "Returns",
                 "templateparam": "Template parameters"}[node.get("kind")]
        items = []
        for item in node.findall("parameteritem"):
            names = ", ".join(self.inline(page, n).strip() for n in item.iter("parametername"))
            items.append(f"<dt><code>{names}</code></dt>"
                         f"<dd>{self.blocks(page, item.find('parameterdescription'), True)}</dd>")
        return (f'<div class="section"><strong>{title}</strong>'
                f"<dl>{''.join(items)}</dl></div>")

    def table(self, page, node):
        rows = []
        for row in node.findall("row"):
            cells = []
            for entry in row.findall("entry"):
                name = "th" if entry.get("thead") == "yes" else "td"
                cells.append(f"<{name}>{self.blocks(page, entry, True)}</{name}>")
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f'<div class="scroll" tabindex="0"><table>{"".join(rows)}</table></div>'

    def paragraph(self, page, node, bare=False):
        """A paragraph, and the blocks that Doxygen puts within one beside it. A bare one that
        is short needs no <p>."""
        out, run = [], [self.text(page, node.text)]

        def end():
            text = "".join(run).strip()
            if text:
                out.append(text if bare and not out else f"<p>{text}</p>")
            run.clear()

        for child in node:
            if child.tag in BLOCKS:
                end()
                out.append(self.element(page, child))
            else:
                run.append(self.element(page, child))
            run.append(self.text(page, child.tail))
        end()
        return "".join(out)

    def blocks(self, page, node, bare=False):
        if node is None:
            return ""
        paragraphs = node.findall("para")
        return "".join(self.paragraph(page, p, bare and len(paragraphs) == 1) for p in paragraphs)

    def brief(self, page, entity):
        """The first sentence."""
        for part in ("briefdescription", "detaileddescription"):
            for paragraph in entity.node.find(part).findall("para"):
                text = self.paragraph(page, paragraph, True)
                text = re.split(r"<(?:p|ul|ol|div|pre)\b", text)[0].strip()
                if text:
                    return re.split(r"(?<=[.])\s+(?=[A-Z\"<])", text)[0]
        return ""

    def description(self, page, entity):
        node = entity.node
        text = (self.blocks(page, node.find("briefdescription")) +
                self.blocks(page, node.find("detaileddescription")))
        if not text and "=delete" not in (node.findtext("argsstring") or ""):
            location = node.find("location")
            at = f"{location.get('file')}:{location.get('line')}" if location is not None else page
            self.undocumented.append(f"{HEADERS}/{at}: {entity.name} is not documented")
        return text

    # ------------------------------------------------------------------ declarations

    def declaration(self, page, entity, owner=""):
        node, kind = entity.node, entity.node.get("kind")
        type_text = tidy(self.code(page, node.find("type"))) if node.find("type") is not None \
            else ""
        name = f'<b>{html.escape(entity.name.removeprefix("~"))}</b>'
        if entity.name.startswith("~"):
            name = "~" + name
        template = self.template(page, node)
        if kind in ("function", "friend"):
            return template + self.function(page, entity, type_text, name)
        if kind == "typedef":
            return f"{template}using {name} = {type_text};"
        if kind == "define":
            return f"#define {name} {html.escape(node.findtext('initializer') or '')}"
        if kind == "enum":
            return f"enum class {name}" + (f" : {type_text}" if type_text else "") + ";"
        static = "static " if node.get("static") == "yes" and "static" not in type_text else ""
        initial = node.find("initializer")
        value = tidy(self.code(page, initial)) if initial is not None else ""
        value = "" if len(plain(initial) if value else "") > 60 else value
        value = (" " if value.startswith("=") else "") + value
        return f"{static}{type_text} {name}{value};"

    def template(self, page, node):
        parameters = node.find("templateparamlist")
        if parameters is None:
            return ""
        separator = " "
        for separator in (" ", "\n          ", "\n              "):
            each = (self.parameter(page, p, separator if len(separator) > 12 else " ")
                    for p in parameters)
            text = f"template &lt;{(',' + separator[:11]).join(each)}&gt;\n"
            if all(width_of(line) <= 84 for line in text.split("\n")):
                break
        return text

    def parameter(self, page, node, separator=" "):
        text = tidy(self.code(page, node.find("type")))
        name = node.findtext("declname") or ""
        text += f"{separator}{name}" if name else ""
        value = node.find("defval")
        if value is not None:
            text += f" = {tidy(self.code(page, value))}"
        return text + html.escape(node.findtext("array") or "")

    def function(self, page, entity, type_text, name):
        node = entity.node
        arguments = node.findtext("argsstring") or ""
        after = html.escape(arguments[arguments.rfind(")") + 1:].replace("=", " = ").strip())
        words = [word for word, given in (
            ("friend", node.get("kind") == "friend"), ("static", node.get("static") == "yes"),
            ("explicit", node.get("explicit") == "yes"),
            ("virtual", node.get("virt") in ("virtual", "pure-virtual"))) if given]
        words = [word for word in words if not re.match(rf"{word}\b", type_text)]
        if "override" in after and "virtual" in words:
            words.remove("virtual")
        head = "".join(word + " " for word in words)
        head += f"{type_text} {name}(" if type_text else f"{name}("
        parameters = [self.parameter(page, p) for p in node.findall("param")]
        line = head + ", ".join(parameters) + ")"
        if width_of(line) > 80 and len(parameters) > 1:
            line = head + "\n    " + ",\n    ".join(parameters) + ")"
        return f"{line} {after};" if after else f"{line};"

    def box(self, page, entity, tag="h3"):
        """A member with its declaration and its description."""
        title = html.escape(entity.name) + (
            "()" if entity.node.get("kind") in ("function", "friend") else "")
        values = self.values(page, entity) if entity.node.get("kind") == "enum" else ""
        return (f'<section class="member"><{tag} id="{entity.anchor}">{title}'
                f'<a class="anchor" href="#{entity.anchor}" aria-label="Link here">#</a></{tag}>'
                f"<pre tabindex=\"0\"><code>{self.declaration(page, entity)}</code></pre>"
                f'{self.description(page, entity)}{values}</section>')

    def values(self, page, entity):
        rows = []
        for value in entity.node.findall("enumvalue"):
            found = self.by_id[value.get("id")]
            rows.append(f'<dt id="{found.anchor}"><code>{found.name}</code></dt>'
                        f"<dd>{self.description(page, found)}</dd>")
        return f'<dl class="values">{"".join(rows)}</dl>'

    # ------------------------------------------------------------------ pages

    @staticmethod
    def heading(name):
        return f'<span class="namespace">{NAMESPACE}::</span>{html.escape(name)}'

    def header(self, page, node):
        location = node.find("location")
        file = location.get("file").removeprefix("include/")
        address = self.site.repository(page, f"{HEADERS}/{file}", f"line-{location.get('line')}")
        return (f'<p class="header"><code>#include &lt;<a href="{address}">{file}</a>&gt;</code>'
                "</p>")

    def pages(self):
        for entity, members in self.classes:
            self.class_page(entity, members)
        for entity in self.enums:
            self.enum_page(entity)
        for name, overloads in self.functions.items():
            self.function_page(name, overloads)
        self.others_page()
        self.index_page()
        if self.undocumented:
            raise SystemExit("\n".join(self.undocumented))

    def class_page(self, entity, members):
        page, node = entity.path, entity.node
        kind = node.get("kind")
        bases = [f"{base.get('prot')} "
                 + (self.link(page, base) if base.get("refid") else html.escape(base.text))
                 for base in node.findall("basecompoundref")]
        body = [f"<h1>{self.heading(entity.name)}</h1>", self.header(page, node)]
        if bases:
            body.append(f'<pre tabindex="0"><code>{kind} <b>{html.escape(entity.name)}</b> : '
                        f"{', '.join(bases)}</code></pre>")
        body.append(self.description(page, entity))
        contents = []
        if members:
            rows = [f'<li><a href="#{m.anchor}"><code>{html.escape(m.name)}</code></a> '
                    f"{self.brief(page, m)}</li>" for m in members]
            body.append('<h2 id="members">Members</h2>'
                        f'<ul class="summary">{"".join(rows)}</ul>')
            contents.append((2, "members", "Members"))
        for member in members:
            body.append(self.box(page, member))
            if not any(text == member.name for _, _, text in contents):
                contents.append((3, member.anchor, member.name))
        self.site.add(Page(page, f"{NAMESPACE}::{entity.name}", "\n".join(body), "reference",
                           contents))

    def enum_page(self, entity):
        page = entity.path
        body = (f"<h1>{self.heading(entity.name)}</h1>{self.header(page, entity.node)}"
                f'<pre tabindex="0"><code>{self.declaration(page, entity)}</code></pre>'
                f"{self.description(page, entity)}"
                f'<h2 id="values">Values</h2>{self.values(page, entity)}')
        self.site.add(Page(page, f"{NAMESPACE}::{entity.name}", body, "reference"))

    def function_page(self, name, overloads):
        page = overloads[0].path
        body = [f"<h1>{self.heading(name)}()</h1>", self.header(page, overloads[0].node)]
        for entity in overloads:
            body.append(f'<section class="member" id="{entity.anchor}"><pre tabindex="0"><code>'
                        f"{self.declaration(page, entity)}</code></pre>"
                        f"{self.description(page, entity)}</section>")
        self.site.add(Page(page, f"{NAMESPACE}::{name}()", "\n".join(body), "reference"))

    def others_page(self):
        page = "reference/types-and-constants.html"
        body = ["<h1>Types and constants</h1>"]
        body += [self.box(page, entity, "h2") for entity in self.others]
        contents = [(2, entity.anchor, entity.name) for entity in self.others]
        self.site.add(Page(page, "Types and constants", "\n".join(body), "reference", contents))

    def index_page(self):
        page = "reference/index.html"
        body = ["<h1>Reference</h1>", self.blocks(page, self.namespace.find("briefdescription")),
                self.blocks(page, self.namespace.find("detaileddescription"))]
        groups = (
            ("Classes", [e for e, _ in self.classes if e.node.get("kind") == "class"]),
            ("Structures", [e for e, _ in self.classes if e.node.get("kind") == "struct"]),
            ("Enumerations", self.enums),
            ("Functions", [overloads[0] for _, overloads in sorted(self.functions.items())]),
            ("Types and constants", self.others))
        contents = []
        for title, entities in groups:
            anchor = anchor_of(title.lower())
            contents.append((2, anchor, title))
            rows = "".join(
                f'<li><a href="{self.site.between(page, e.address)}"><code>{html.escape(e.name)}'
                f"</code></a> {self.brief(page, e)}</li>" for e in entities)
            body.append(f'<h2 id="{anchor}">{title}</h2><ul class="summary">{rows}</ul>')
        self.site.add(Page(page, "Reference", "\n".join(body), "reference", contents))

    def menu(self):
        classes = [(e.path, e.name) for e, _ in self.classes if e.node.get("kind") == "class"]
        structures = [(e.path, e.name) for e, _ in self.classes if e.node.get("kind") == "struct"]
        functions = [(o[0].path, f"{name}()") for name, o in sorted(self.functions.items())]
        return [("Reference", [("reference/index.html", "Overview")] + classes + functions
                 + [("reference/types-and-constants.html", "Types and constants")]),
                ("Structures", structures),
                ("Enumerations", [(e.path, e.name) for e in self.enums])]
