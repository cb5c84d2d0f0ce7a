"""Draws the result of a load as SVG: latencies and error rates, with and without faults.

usage: python3 picture.py FILE.json FILE.svg    draws what `run --json FILE.json` has measured
"""
import json
import pathlib
import sys
from xml.sax.saxutils import escape

FONT = "font-family='Helvetica,Arial,sans-serif'"
INK, GREY, RULE = "#1b1f24", "#57606a", "#d0d7de"
COLOURS = {False: "#8c959f", True: "#1f6feb"}
WIDTH, HEIGHT, MARGIN, GAP = 900, 340, 24, 28
BASE, TALLEST = 250, 130  # the y of the axis, and the height of the longest bar


def text(x, y, content, size=13, colour=INK, anchor="start", weight="normal"):
    return (f"<text x='{x:.0f}' y='{y:.0f}' {FONT} font-size='{size}' font-weight='{weight}' "
            f"fill='{colour}' text-anchor='{anchor}'>{escape(content)}</text>")


def figure(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def panel(x, width, title, unit, runs, key):
    out = [text(x, 76, title, 14, weight="bold"), text(x, 94, unit, 12, GREY),
           f"<line x1='{x}' y1='{BASE}' x2='{x + width}' y2='{BASE}' stroke='{RULE}'/>"]
    top = max(run[key] for run in runs) or 1
    step = width / len(runs)
    for i, run in enumerate(runs):
        height = TALLEST * run[key] / top
        left, middle = x + i * step + 8, x + (i + 0.5) * step
        out.append(f"<rect x='{left:.0f}' y='{BASE - height:.1f}' width='{step - 16:.0f}' "
                   f"height='{height:.1f}' fill='{COLOURS[run['faults']]}'/>")
        out.append(text(middle, BASE - height - 6, figure(run[key]), 12, anchor="middle"))
        out.append(text(middle, BASE + 18, str(run["connections"]), 12, GREY, "middle"))
    return out


def picture(result):
    runs = result["runs"]
    width = (WIDTH - 2 * MARGIN - 2 * GAP) // 3
    title = f"Booking: 3 servers, 5 instances, {result['database']}, {runs[0]['seconds']:.0f} s"
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
           f"role='img' aria-label='{escape(title)}'>",
           f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>",
           text(MARGIN, 40, title, 18, weight="bold")]
    panels = (("p50", "ms, to the answer", "p50_ms"), ("p99", "ms, to the answer", "p99_ms"),
              ("errors", "% of the requests", "errors_percent"))
    for i, (name, unit, key) in enumerate(panels):
        out += panel(MARGIN + i * (width + GAP), width, name, unit, runs, key)
    y = HEIGHT - 22
    for x, faults, label in ((MARGIN, False, "without faults"),
                             (MARGIN + 150, True, "two of five instances frozen, or killed")):
        out.append(f"<rect x='{x}' y='{y - 11}' width='12' height='12' "
                   f"fill='{COLOURS[faults]}'/>")
        out.append(text(x + 18, y, label, 12))
    out.append(text(WIDTH - MARGIN, y, "below the bars: connections", 12, GREY, "end"))
    return "\n".join(out) + "\n</svg>\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    measured = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    pathlib.Path(sys.argv[2]).write_text(picture(measured), encoding="utf-8")
