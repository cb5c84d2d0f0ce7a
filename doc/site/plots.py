"""Plots of the measurements in doc/data, drawn when the site is built.

A file there is what `tools/bench SCENARIO --json FILE` wrote, with the scenario at the beginning of
its name. Its form decides how it is drawn:
  "peers"              the library beside other libraries: see tools/hotkey-picture
  "runs", "database"   example/3_advanced/booking/load
  "runs"               a group of bars for each run; prefixes and objects are the ways compared
  other                the figures by their units, and lists in it as "runs"
"""
import html
import importlib.machinery
import importlib.util
import json
import math
import re

from site_frame import ROOT, drawn, slug

DATA = ROOT / "doc" / "data"
WIDTH, ROW = 420, 38  # narrow enough for a phone
# The end of a figure's name, and its unit. The first that fits counts.
UNITS = (
    ("_us_per_pair", "us a pair"), ("_per_pair", "a pair"), ("_bytes_per_lease", "B a lease"),
    ("bytes_per_waiter", "B a waiter"), ("_per_acquisition", "an acquisition"), ("_per_s", "1/s"),
    ("percent_of_core", "% of a core"), ("percent", "%"),
    ("percent_uncontended", "%"), ("percent_contended", "%"), ("_us", "us"), ("_ms", "ms"),
    ("ratio", "ratio"), ("_s", "s"), ("bytes", "B"),
)
# Settings of a run, and not figures.
SETTINGS = {"instances", "processes", "coroutines", "hold_ms", "seconds", "rounds", "count",
            "ttl_s", "waiters", "connections", "faults", "primaries", "replicas", "clients"}
# Those figures of the scenario hotkey that are drawn where its ways are compared.
HOTKEY_FIGURES = ("acquisitions_per_s", "commands_per_acquisition", "handover_p50_us",
                  "handover_pings", "min_share", "max_wait_ms")
# Ways that a scenario compares, as prefixes of its figures.
PREFIXES = ("floor", "plain", "healthy")


def module(path):
    """A script of the repository, for the functions that it has."""
    loader = importlib.machinery.SourceFileLoader(re.sub(r"\W", "_", path), str(ROOT / path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return loaded


HOTKEY = module("tools/hotkey-picture")
EDGE = 14  # the x of zero
COLOURS = {"ours": "#1f6feb", "other": "#8c959f"}


def unit_of(name):
    return next((unit for end, unit in UNITS if name.endswith(end)), "")


def words(name):
    """The name of a figure without its unit."""
    for end, _ in UNITS:
        if name.endswith(end) and len(name) > len(end):
            name = name[:-len(end)]
            break
    name = name.strip("_").replace("_", " ")
    return re.sub(r"^(cpu|rss)\b", lambda found: found[0].upper(), name)


def titled(text):
    return text[:1].upper() + text[1:]


def chart(name, title, unit, bars):
    """Horizontal bars from zero; points on a logarithmic scale if the values are far apart.
    `bars`: label, value, "ours" or "other"; a label alone begins a group."""
    values = [bar[1] for bar in bars if len(bar) > 1]
    far = min(values) > 0 and max(values) / min(values) > 200
    height = 62 + ROW * len(bars) + (16 if far else 0)
    room = WIDTH - 76
    if far:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = ((lambda v: room * (math.log10(v) - low) / (high - low)) if far
             else (lambda v: room * v / (max(values) or 1)))
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
           f"viewBox='0 0 {WIDTH} {height}' role='img'><title>{html.escape(title)}</title>",
           HOTKEY.text(0, 18, title, 15, weight="bold"),
           HOTKEY.text(0, 36, unit + (", logarithmic scale" if far else ""), 12, HOTKEY.GREY)]
    if far:
        for power in range(low, high + 1):
            x = EDGE + scale(10.0 ** power)
            out.append(f"<line x1='{x:.1f}' y1='46' x2='{x:.1f}' y2='{height - 18}' "
                       f"stroke='{HOTKEY.RULE}'/>")
            tick = f"{10 ** power:,}" if power >= 0 else f"{10.0 ** power:g}"
            out.append(HOTKEY.text(f"{x:.1f}", height - 4, tick, 10, HOTKEY.GREY, "middle"))
    for i, bar in enumerate(bars):
        y = 62 + ROW * i
        if len(bar) == 1:
            out.append(HOTKEY.text(0, y + 12, bar[0], 12, weight="bold"))
            continue
        label, value, kind = bar
        out.append(HOTKEY.text(EDGE, y, label, 12, HOTKEY.GREY))
        end = EDGE + scale(value)
        if far:
            out.append(f"<circle cx='{end:.1f}' cy='{y + 12}' r='5' fill='{COLOURS[kind]}'/>")
        else:
            out.append(f"<rect x='{EDGE}' y='{y + 5}' width='{max(1.0, end - EDGE):.1f}' "
                       f"height='14' fill='{COLOURS[kind]}'/>")
        out.append(HOTKEY.text(f"{end + 9:.1f}", y + 16, HOTKEY.figure(value), 12,
                               weight="bold" if kind == "ours" else "normal"))
    return drawn("\n".join(out + ["</svg>"]), name, "plot")


def numbers(of):
    """The figures of an object, without its settings and without those that were not measured."""
    return {name: value for name, value in of.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            and name not in SETTINGS}


def only(figures, run):
    """The run with these figures alone, and its settings."""
    return {name: {f: v for f, v in of.items() if f in figures} if isinstance(of, dict) else of
            for name, of in run.items()}


def ways_of(run):
    """The ways that a run compares, each with its figures; the first is ours."""
    ways = {name: numbers(value) for name, value in run.items()
            if isinstance(value, dict) and "_to_" not in name}
    if ways:
        return ways
    ours, others = {}, {}
    for name, value in numbers(run).items():
        prefix, _, rest = name.partition("_")
        if prefix in PREFIXES:
            others.setdefault(prefix, {})[rest] = value
        else:
            ours[name] = value
    return {"holdfast": ours, **others}


def setting_of(run):
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in run.items()
                     if name in SETTINGS and isinstance(value, int)) or "run"


def runs_charts(name, runs, before=""):
    figures = list(dict.fromkeys(figure for run in runs for way in ways_of(run).values()
                                 for figure in way))
    out = []
    for figure in figures:
        bars = []
        for run in runs:
            ways = ways_of(run)
            shown = [(way, ways[way][figure], "other" if i else "ours")
                     for i, way in enumerate(ways) if figure in ways[way]]
            bars += [(setting_of(run),)] + shown if shown else []
        out.append(chart(f"{name}-{figure}", titled(before + words(figure)), unit_of(figure), bars))
    return out


def title_of(unit):
    if not unit or unit == "ratio":
        return "Ratios" if unit else "Counts"
    return f"Figures for {unit}" if unit.startswith("a") else f"Figures in {unit}"


def flat_charts(name, data):
    units, lists = {}, []

    def add(part, figures):
        for figure, value in figures.items():
            ours = not set(figure.split("_")) & set(PREFIXES)
            label = words(figure) if not part else f"{part.replace('_', ' ')}: {words(figure)}"
            units.setdefault(unit_of(figure), []).append(
                (label, value, "ours" if ours else "other"))

    add("", numbers(data))
    for part, of in data.items():
        if isinstance(of, dict):
            add(part, numbers(of))
        elif isinstance(of, list) and of and all(isinstance(run, dict) for run in of):
            lists += runs_charts(f"{name}-{part}", of, f"{part.replace('_', ' ')}: ")
    return [chart(f"{name}-{unit}", title_of(unit), unit or "number", bars)
            for unit, bars in units.items()] + lists


def peers_charts(name, data):
    out = []
    for figure, title in (("acquisitions_per_s", "Acquisitions per second: more is better"),
                          ("commands_per_acquisition", "Commands an acquisition: fewer is better")):
        bars = [("holdfast", data.get(figure), "ours")]
        bars += [(peer["name"], peer.get(figure), "other") for peer in data["peers"]]
        bars = [bar for bar in bars if bar[1] is not None]  # null: not measured
        if bars:
            out.append(chart(f"{name}-{figure}", title, unit_of(figure), bars))
    return out


def heading(name, data):
    if "peers" not in data:
        return name.replace("-", " ")
    processes = "1 process" if data["processes"] == 1 else f"{data['processes']} processes"
    held = f"held for {data['hold_ms']:g} ms" if data["hold_ms"] else "released at once"
    return f"One hot key: {processes} with {data['coroutines']:,} coroutines, {held}"


def plots(site, page):
    """HTML for the end of a page, and its part of the page's contents."""
    body = ['<h2 id="plots">Plots of the data</h2><p>Each is drawn from a file in '
            f'<a href="{site.repository(page, "doc/data")}"><code>doc/data</code></a> that a '
            "benchmark wrote. Bars begin at zero.</p>"]
    contents = [(2, "plots", "Plots of the data")]
    for file in sorted(DATA.glob("*.json")):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"doc/data/{file.name}: {error}") from error
        if "instances" in data and "lines" in data:
            continue  # the times of one run: tools/acquire-picture draws them, and pages show that
        name, title = file.stem, heading(file.stem, data)
        if "peers" in data:
            charts = peers_charts(name, data)
        elif "database" in data:
            picture = module("example/3_advanced/booking/load/picture.py").picture(data)
            charts = [drawn(picture, name)]
        elif data.get("scenario") == "hotkey" and "runs" in data:
            charts = runs_charts(name, [only(HOTKEY_FIGURES, run) for run in data["runs"]])
        elif "runs" in data:
            charts = runs_charts(name, data["runs"])
        else:
            charts = flat_charts(name, data)
        if not charts:
            raise SystemExit(f"doc/data/{file.name} has no figures to draw")
        anchor = f"plot-{slug(name)}"
        address = site.repository(page, f"doc/data/{file.name}")
        body.append(f'<h3 id="{anchor}">{html.escape(title)}<a class="anchor" href="#{anchor}" '
                    f'aria-label="Link here">#</a></h3><div class="plots">{"".join(charts)}</div>'
                    f'<p>Data: <a href="{address}"><code>{file.name}</code></a></p>')
        contents.append((3, anchor, title))
    return "\n".join(body), contents
