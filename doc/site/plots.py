"""Plots of the measurements in doc/data, drawn when the site is built.

A file there is what `tools/bench SCENARIO --json FILE` wrote, with the scenario at the beginning of
its name. Its form decides how it is drawn:
  "peers"              the library beside other libraries: see tools/hotkey-picture
  "runs", "database"   example/3_advanced/booking/load
  "runs"               a group of bars for each run; prefixes and objects in it are the ways compared
  other                the figures by their units
"""
import html
import importlib.machinery
import importlib.util
import json
import math
import re

from site_frame import ROOT, drawn, slug

DATA = ROOT / "doc" / "data"
WIDTH, LABELS, BAR = 720, 230, 22
# The end of a figure's name, and its unit. The first that fits counts.
UNITS = (
    ("_us_per_pair", "us a pair"), ("_per_pair", "a pair"), ("_bytes_per_lease", "B a lease"),
    ("bytes_per_waiter", "B a waiter"), ("_per_acquisition", "an acquisition"), ("_per_s", "1/s"),
    ("percent_of_core", "% of a core"), ("percent", "%"), ("_us", "us"), ("_ms", "ms"),
    ("ratio", "ratio"), ("_s", "s"), ("bytes", "B"),
)
# Settings of a run, and not figures.
SETTINGS = {"instances", "processes", "coroutines", "hold_ms", "seconds", "rounds", "count", "ttl_s",
            "waiters", "connections", "faults", "primaries", "replicas", "clients"}
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
COLOURS = {"ours": "#1f6feb", "other": "#8c959f"}


def unit_of(name):
    return next((unit for end, unit in UNITS if name.endswith(end)), "")


def words(name):
    """The name of a figure without its unit."""
    for end, _ in UNITS:
        if name.endswith(end) and len(name) > len(end):
            name = name[:-len(end)] + ("_a_pair" if end.endswith("_per_pair") else "")
            break
    return name.strip("_").replace("_", " ")


def chart(name, title, unit, bars):
    """Horizontal bars from zero; points on a logarithmic scale if the values are far apart.
    `bars`: label, value, "ours" or "other"; a label alone begins a group."""
    values = [bar[1] for bar in bars if len(bar) > 1]
    far = min(values) > 0 and max(values) / min(values) > 200
    height = 62 + BAR * len(bars)
    room = WIDTH - LABELS - 90
    if far:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = ((lambda v: room * (math.log10(v) - low) / (high - low)) if far
             else (lambda v: room * v / (max(values) or 1)))
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
           f"viewBox='0 0 {WIDTH} {height}' role='img'><title>{html.escape(title)}</title>",
           HOTKEY.text(0, 18, title, 15, weight="bold"),
           HOTKEY.text(0, 37, unit + (", logarithmic scale" if far else ""), 12, HOTKEY.GREY)]
    if far:
        for power in range(low, high + 1):
            x = LABELS + scale(10.0 ** power)
            out.append(f"<line x1='{x:.1f}' y1='44' x2='{x:.1f}' y2='{height - 14}' "
                       f"stroke='{HOTKEY.RULE}'/>")
            out.append(HOTKEY.text(f"{x:.1f}", height - 2, f"{10.0 ** power:,g}", 11, HOTKEY.GREY,
                                   "middle"))
    else:
        out.append(f"<line x1='{LABELS}' y1='44' x2='{LABELS}' y2='{height - 8}' "
                   f"stroke='{HOTKEY.RULE}'/>")
    for i, bar in enumerate(bars):
        y = 60 + BAR * i
        if len(bar) == 1:
            out.append(HOTKEY.text(0, y, bar[0], 12, weight="bold"))
            continue
        label, value, kind = bar
        out.append(HOTKEY.text(LABELS - 10, y, label, 12, anchor="end"))
        end = LABELS + scale(value)
        if far:
            out.append(f"<circle cx='{end:.1f}' cy='{y - 4}' r='5' fill='{COLOURS[kind]}'/>")
        else:
            out.append(f"<rect x='{LABELS}' y='{y - 11}' width='{max(1.0, end - LABELS):.1f}' "
                       f"height='14' fill='{COLOURS[kind]}'/>")
        out.append(HOTKEY.text(f"{end + 9:.1f}", y, HOTKEY.figure(value), 12,
                               weight="bold" if kind == "ours" else "normal"))
    return drawn("\n".join(out + ["</svg>"]), name)


def numbers(of):
    """The figures of an object, without its settings and without those that were not measured."""
    return {name: value for name, value in of.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            and name not in SETTINGS}


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


def runs_charts(name, runs):
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
        out.append(chart(f"{name}-{figure}", words(figure), unit_of(figure), bars))
    return out


def flat_charts(name, data):
    units = {}
    for way, figures in ways_of({k: v for k, v in data.items() if not isinstance(v, dict)}).items():
        for figure, value in figures.items():
            label = words(figure) if way == "holdfast" else f"{way}: {words(figure)}"
            units.setdefault(unit_of(figure), []).append(
                (label, value, "ours" if way == "holdfast" else "other"))
    for part, of in data.items():
        if isinstance(of, dict):
            for figure, value in numbers(of).items():
                units.setdefault(unit_of(figure), []).append(
                    (f"{part.replace('_', ' ')}: {words(figure)}", value, "ours"))
    return [chart(f"{name}-{unit}", f"Figures in {unit}" if unit else "Counts", unit or "number",
                  bars) for unit, bars in units.items()]


def peers_charts(name, data):
    out = []
    for figure, title in (("acquisitions_per_s", "Acquisitions per second: more is better"),
                          ("commands_per_acquisition", "Commands an acquisition: fewer is better")):
        bars = [("holdfast", data[figure], "ours")]
        bars += [(peer["name"], peer[figure], "other") for peer in data["peers"]]
        out.append(chart(f"{name}-{figure}", title, unit_of(figure), bars))
    return out


def heading(name, data):
    if "peers" not in data:
        return name.replace("-", " ")
    processes = "1 process" if data["processes"] == 1 else f"{data['processes']} processes"
    return (f"One hot key: {processes} with {data['coroutines']:,} coroutines, held for "
            f"{data['hold_ms']:g} ms")


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
        name, title = file.stem, heading(file.stem, data)
        if "peers" in data:
            charts = peers_charts(name, data)
        elif "database" in data:
            picture = module("example/3_advanced/booking/load/picture.py").picture(data)
            charts = [drawn(picture, name)]
        elif "runs" in data:
            charts = runs_charts(name, data["runs"])
        else:
            charts = flat_charts(name, data)
        if not charts:
            raise SystemExit(f"doc/data/{file.name} has no figures to draw")
        anchor = f"plot-{slug(name)}"
        address = site.repository(page, f"doc/data/{file.name}")
        body.append(f'<h3 id="{anchor}">{html.escape(title)}<a class="anchor" href="#{anchor}" '
                    f'aria-label="Link here">#</a></h3>{"".join(charts)}'
                    f'<p>Data: <a href="{address}"><code>{file.name}</code></a></p>')
        contents.append((3, anchor, title))
    return "\n".join(body), contents
