#!/usr/bin/env python3
"""Draws the JSON of koel-bench, and files of recorded rates, as SVG or PNG files.

    pip install matplotlib
    koel-bench --n 2^16..2^24 --device all --json | python crates/bench/plots.py --out folder
    koel-bench --paper breslow --json > breslow.json; python crates/bench/plots.py breslow.json --out folder
    python crates/bench/plots.py docs/plots/rates-gpu.json docs/plots/rates-cpu.json --out docs/plots

Rates are drawn over the number of pairs, the load, the share of hits and the rows per key: one file for each operation
and each of these that has several values. Lines are tables and devices, thin lines are limits of the memory. Each
figure of a paper is a file; thin lines are models.
"""

import argparse
import itertools
import json
import pathlib
import re
import sys
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

# With the same version of matplotlib, equal data give equal files.
pyplot.rcParams.update({
    "svg.hashsalt": "koel", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9, "legend.frameon": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e3e3e3", "figure.constrained_layout.use": True,
    "axes.spines.top": False, "axes.spines.right": False, "lines.markersize": 4,
})
GREY = "#5c5c5c"
COLOURS = "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #222222 #8c6d31 #7b4fa3 #a8a8a8".split()
# The properties over which rates are drawn: the label, whether the axis is logarithmic, and the text for one value.
AXES = {
    "n": ("pairs", True, "n = {:,}"), "requested_load": ("load", False, "load {}"),
    "hits": ("queries that hit (%)", False, "{}% hits"), "multiplicity": ("rows per key", True, "{} rows per key"),
}


def write(figure, file, lines, handles, notes=()):
    """Writes a figure with these lines above it, of which the first is its title, and a legend and notes under it."""
    letters = int(13 * figure.get_figwidth())
    figure.suptitle("\n".join(textwrap.fill(line, letters) for line in lines), x=0.01, ha="left", size=10)
    columns = max(1, letters // (8 + max(len(handle.get_label()) for handle in handles)))
    legend = figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 0), ncols=columns)
    figure.draw_without_rendering()
    bottom = legend.get_window_extent().transformed(figure.transFigure.inverted()).y0
    notes = "\n".join(textwrap.fill(note, int(1.25 * letters)) for note in notes)
    figure.text(0.01, bottom, notes, va="top", size=8, color=GREY)
    metadata = {"Date": None, "Creator": None, "Title": lines[0]} if file.suffix == ".svg" else None
    figure.savefig(file, bbox_inches="tight", metadata=metadata)
    pyplot.close(figure)
    print(file)


def conditions(found):
    devices = "; ".join(f"{device['id']} ({device['name']})" for device in found["devices"])
    return f"{devices}; {found['threads']} host threads; medians of {found['repeats']} run(s); koel {found['koel']}"


def curves(file, lines, x, y, panels, thin, notes=()):
    """Draws panels with common axes. `panels` has headings, each with its points by label and whether it is a model."""
    every = list(dict.fromkeys(itertools.chain(*panels.values())))
    labels = list(dict.fromkeys(label for label, _ in every))
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    size = (max(4.5 * columns, 7), 3.4 * rows + 0.6)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)

    def style(label, model):
        turn, colour = divmod(labels.index(label), len(COLOURS))
        marker = "osD^vP"[turn % 6] if x["names"] or not model else None
        return {"color": COLOURS[colour], "linestyle": "none" if x["names"] else "--" if model else "-",
                "linewidth": 0.8 if model else 1.6, "marker": marker, "fillstyle": "none" if model else "full"}

    for axes, (head, series) in zip(grid.flat, panels.items()):
        for (label, model), points in series.items():
            axes.plot(*zip(*sorted(points)), **style(label, model))
        heads = [f"{axis['label']} ({axis['unit']})" if axis["unit"] else axis["label"] for axis in (x, y)]
        axes.set(title=head, xlabel=heads[0], ylabel=heads[1])
        axes.tick_params(labelbottom=True)
        if x["names"]:
            axes.set_xticks(range(len(x["names"])), [textwrap.fill(name, 15) for name in x["names"]])
            axes.margins(x=0.1)
        elif x["log"]:
            axes.set_xscale("log", base=2)
        axes.set_yscale("log") if y["log"] else axes.set_ylim(bottom=0)
    for axes in grid.flat[len(panels):]:
        axes.remove()
    handles = [Line2D([], [], label=label, **style(label, (label, False) not in every)) for label in labels]
    if any(model for _, model in every):
        handles.append(Line2D([], [], color=GREY, linestyle="--", linewidth=0.8, label=thin))
    write(figure, file, lines, handles, notes)


def rates(found, out):
    """Draws an ordinary run."""
    def label(row):
        kind = " ".join(filter(None, [row["scheme"] or row["table"], row["kind"]]))
        heavy = row["heavy"] and f"{row['heavy']:.0%} of one key"
        device = row["device"] if len(found["devices"]) > 1 and row["where"] != "host" else None
        pinned = "pinned memory" if row["where"] == "pinned" else None
        return ", ".join(filter(None, [kind, heavy, device, pinned])) + " (host-built)" * row["host_built"]

    def values(rows, axis):
        return sorted({row[axis] for row in rows} - {None})

    def draw(table, what, place, axis):
        places = ("host", "device") if place == "device" else ("host", "end-to-end", "pinned")
        rows = [row for row in found["rows"] if (row["table"], row["what"]) == (table, what)
                and row["where"] in places and row[axis] is not None]
        # Of numbers of pairs and of rows per key, the other axes have the greatest one.
        for other in {"n", "multiplicity"} - {axis}:
            rows = [row for row in rows if row[other] in (None, *values(rows, other)[-1:])]
        if len(values(rows, axis)) < 2 or all(row["where"] == "host" for row in rows):
            return
        most, least = max(row["rate"] for row in rows), min(row["rate"] for row in rows)
        unit, factor = ("G/s", 1e9) if most >= 1e9 else ("M/s", 1e6)
        others = [other for other in AXES if other != axis and values(rows, other)]
        panels = {}
        for chosen in itertools.product(*(values(rows, other) for other in others)):
            series = panels.setdefault("; ".join(AXES[o][2].format(v) for o, v in zip(others, chosen)), {})
            for row in rows:
                if all(row[other] in (None, value) for other, value in zip(others, chosen)):
                    at = row["load" if axis == "requested_load" else axis]
                    series.setdefault((label(row), False), []).append((at, row["rate"] / factor))
                    if row["limit"]:
                        series.setdefault((label(row), True), []).append((at, row["limit"] / factor))
        name, log, _ = AXES[axis]
        x = {"label": name, "unit": "", "log": log, "names": []}
        y = {"label": "rate", "unit": unit, "log": most > 40 * least}
        name = f"{'' if table == 'map' else table + ': '}{what} over {name.split(' (')[0]}"
        title = f"{name}, {'from host memory to host memory' if place == 'host' else 'on the device'}"
        curves(out(f"{name} {'end to end' if place == 'host' else ''}"), [title, conditions(found)], x, y, panels,
               "limit of the memory")

    for table, what in dict.fromkeys((row["table"], row["what"]) for row in found["rows"]):
        if not what.startswith(("random ", "transfer ")):
            for place, axis in itertools.product(("device", "host"), AXES):
                draw(table, what, place, axis)


def paper(found, out):
    """Draws the figures of a paper, with a panel for each device."""
    for name in dict.fromkeys(figure["id"] for figure in found["figures"] if figure["series"]):
        same = [figure for figure in found["figures"] if figure["id"] == name and figure["series"]]
        panels = {f["device"]: {(s["label"], s["model"]): s["points"] for s in f["series"]} for f in same}
        lines = [f"{same[0]['title']} ({found['paper']}, {same[0]['place']})", conditions(found)]
        notes = dict.fromkeys(note for figure in same for note in figure["notes"])
        curves(out(f"{found['paper']} {name}"), lines, same[0]["x"], same[0]["y"], panels, "model, or the paper", notes)


def bars(file, lines, label, columns, notes=()):
    """Draws bars. `columns` has headings, each with groups by label; a bar is a kind, a length and a text."""
    kinds = list(dict.fromkeys(bar[0] for groups in columns.values() for bars in groups.values() for bar in bars))
    height = max(sum(len(bars) + 0.8 for bars in groups.values()) for groups in columns.values())
    size = (6 * len(columns), 0.19 * height + 1.2)
    figure, grid = pyplot.subplots(1, len(columns), figsize=size, sharex=True, squeeze=False)
    for axes, (head, groups) in zip(grid[0], columns.items()):
        top, ticks = 0.0, []
        for bars in groups.values():
            ticks.append(top + (len(bars) - 1) / 2)
            for kind, length, text in bars:
                axes.barh(top, length, 0.85, color=COLOURS[kinds.index(kind)])
                axes.annotate(text, (length, top), (3, 0), textcoords="offset points", va="center", size=8)
                top += 1
            top += 0.8
        axes.set(title=head, xlabel=label, ylim=(height - 0.8, -0.8))
        axes.set_yticks(ticks, groups)
        axes.margins(x=0.3)
        axes.grid(axis="y", visible=False)
    write(figure, file, lines, [Patch(color=colour, label=kind) for kind, colour in zip(kinds, COLOURS)], notes)


def recorded(found, out):
    """Draws recorded rates."""
    columns, notes = {}, dict.fromkeys(found["notes"])
    for column in found["columns"]:
        day = column["rates"][0]["date"]
        groups = columns.setdefault(f"{column['on']}; {day}", {})
        for rate in column["rates"]:
            text = f"{rate['rate']:g}" + (f" ({rate['but']})" if "but" in rate else "")
            groups.setdefault(rate["of"], []).append((rate["by"], rate["rate"], text))
            if rate["date"] != day:
                notes[f"{rate['by']}: measured {rate['date']}."] = None
    sources = dict.fromkeys(rate["source"] for column in found["columns"] for rate in column["rates"])
    notes = [*notes, f"Method: {', '.join(sources)}."]
    bars(out(None), [found["title"], found["line"]], f"rate ({found['unit']})", columns, notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=["-"], help="JSON files [default: - for stdin]")
    parser.add_argument("--out", type=pathlib.Path, default=".", help="the folder for the pictures [default: this one]")
    parser.add_argument("--format", default="svg", help="svg, png or another format of matplotlib [default: svg]")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.files:
        found = json.load(sys.stdin) if file == "-" else json.loads(pathlib.Path(file).read_text(encoding="utf-8"))

        def out(name):
            name = re.sub("[^a-z0-9.]+", "-", name.lower()).strip("-") if name else pathlib.Path(file).stem
            return args.out / f"{name}.{args.format}"

        for field, draw in {"figures": paper, "columns": recorded, "left_out": rates}.items():
            if field in found:
                draw(found, out)
                break
        else:
            sys.exit(f"{file}: only ordinary runs, runs with --paper and recorded rates are drawn")


if __name__ == "__main__":
    main()
