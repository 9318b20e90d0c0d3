#!/usr/bin/env python3
"""Draws what `ropeline rope --extend` says: bands against extension methods, and the arcs that bands sweep.

usage: scripts/plot_rope.py [--out PREFIX] [MODEL] [flags of ropeline rope]
       scripts/plot_rope.py [--out PREFIX] --from FILE
       ropeline rope --d 128 --base 10000 --train 4096 --extend 32k --json | scripts/plot_rope.py [--out PREFIX]

Writes PREFIX.png and PREFIX.svg; without --out, rope.png and rope.svg in the current folder. --from FILE reads what
`ropeline rope --extend N --json` wrote; - is standard input. With flags, or where standard input is a terminal,
build/ropeline is run.
"""
import json
import math
import os
import sys

DEBIAN_PYTHON = "/usr/bin/python3"
try:
    import matplotlib
except ImportError:
    # Another python may come first on PATH; Debian's has the packages that scripts/setup.sh installs.
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON) and os.path.exists(DEBIAN_PYTHON):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    print("scripts/plot_rope.py: matplotlib is not installed, expected Debian's python3-matplotlib", file=sys.stderr)
    sys.exit(2)

matplotlib.use("Agg")
import matplotlib.colors  # noqa: E402
import matplotlib.lines  # noqa: E402
import matplotlib.patches  # noqa: E402
import matplotlib.patheffects  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

from plot_input import BadInput, parse, read, run_ropeline  # noqa: E402

TURN = 2 * math.pi
SEEN, NEW, TRACK = "#2c6fbb", "#d1495b", "#e9ecef"
NAMES = {"none": "as trained", "pi": "PI", "ntk": "NTK", "dynamic": "dynamic NTK", "yarn": "YaRN", "llama3": "llama3",
         "longrope": "LongRoPE"}
EXPECTED = "expected what `ropeline rope --extend N --json` writes"


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check(document, name):
    """The methods that have bands."""
    if not isinstance(document, dict) or not isinstance(document.get("extend"), dict):
        raise BadInput(f"{name}: extend: is missing, {EXPECTED}")
    extend = document["extend"]
    try:
        if not number(extend["context"]) or not number(extend["trained_tokens"]):
            raise BadInput(f"{name}: extend: holds no contexts, {EXPECTED}")
        methods = [method for method in extend["methods"] if "bands" in method]
        for method in methods:
            method["method"] + method["note"]
            for band in method["bands"]:
                for key in ("i", "turns_train", "arc_train", "arc_context", "unseen", "squeeze"):
                    if not number(band[key]):
                        raise BadInput(f"{name}: extend.methods: {key} is {band[key]!r}, {EXPECTED}")
        layer = [layer for layer in document["layers"] if layer["layer_type"] == extend["layer_type"]][0]
        layer["base"] + layer["d_rot"]
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{name}: {str(error)[:80]}: is missing or of another type, {EXPECTED}") from None
    # Bands that stand still turn nowhere.
    for method in methods:
        method["bands"] = [band for band in method["bands"] if band["arc_train"] > 0]
    methods = [method for method in methods if method["bands"]]
    if not methods:
        raise BadInput(f"{name}: extend.methods: none has bands, {EXPECTED}")
    return extend, layer, methods


def tokens(n):
    n = int(round(n))
    return f"{n // 1024}k" if n >= 1024 and n % 1024 == 0 else f"{n:,}"


def boundary(bands, turns):
    """Bands that turned at least so often, as a position between two of them."""
    return sum(band["turns_train"] >= turns for band in bands) - 0.5


def heat_map(axes, methods, key, colours, norm, label, figure):
    bands = methods[0]["bands"]
    grid = [[band[key] for band in method["bands"]] for method in methods]
    image = axes.imshow(grid, aspect="auto", cmap=colours, norm=norm, interpolation="nearest")
    axes.set_yticks(range(len(methods)), [NAMES.get(m["method"], m["method"]) for m in methods])
    axes.set_yticks([k - 0.5 for k in range(1, len(methods))], minor=True)
    axes.grid(which="minor", axis="y", color="white", linewidth=3)
    axes.tick_params(which="both", length=0)
    for turns in (32, 1):
        at = boundary(bands, turns)
        if 0 < at < len(bands) - 1:
            axes.axvline(at, color="#222222", linewidth=1, linestyle=(0, (3, 2)))
    bar = figure.colorbar(image, ax=axes, pad=0.012, fraction=0.035)
    bar.set_label(label, fontsize=9.5)
    bar.ax.tick_params(labelsize=9)
    return bar


def mark_turns(axes, bands):
    for turns, text in ((32, "turned 32 times\nin training"), (1, "turned once")):
        at = boundary(bands, turns)
        if 0 < at < len(bands) - 1:
            axes.annotate(text, (at, -0.5), xytext=(0, 4), textcoords="offset points", ha="center", va="bottom",
                          fontsize=9, color="#222222", annotation_clip=False)


def wedge(axes, radius, width, start, stop, colour):
    """Clockwise from the top, in radians."""
    if stop > start:
        axes.add_patch(matplotlib.patches.Wedge((0, 0), radius, 90 - math.degrees(stop), 90 - math.degrees(start),
                                                width=width, facecolor=colour, edgecolor="none"))


def chosen_bands(bands):
    """Up to six that had not turned once, from the first of them to the last; else the slowest six."""
    slow = [k for k, band in enumerate(bands) if band["turns_train"] < 1] or list(range(max(0, len(bands) - 6), len(bands)))
    count = min(6, len(slow))
    return [slow[0]] if count == 1 else [slow[round(j * (len(slow) - 1) / (count - 1))] for j in range(count)]


def arcs(axes, method, chosen):
    """A ring per band: the outermost is the slowest."""
    width = 0.9 / (len(chosen) + 1.6)
    for j, k in enumerate(chosen):
        band = method["bands"][k]
        radius = 1 - (len(chosen) - 1 - j) * width
        wedge(axes, radius, 0.8 * width, 0, TURN, TRACK)
        trained, used = min(band["arc_train"], TURN), min(band["arc_context"], TURN)
        wedge(axes, radius, 0.8 * width, 0, min(trained, used), SEEN)
        # Less than one trained step beyond is interpolation's remainder, not a new angle.
        if band["out_of_distribution"]:
            wedge(axes, radius, 0.8 * width, trained, used, NEW)
        if trained < TURN:
            edge = 90 - math.degrees(trained)
            x, y = math.cos(math.radians(edge)), math.sin(math.radians(edge))
            axes.plot([x * (radius - 0.8 * width), x * radius], [y * (radius - 0.8 * width), y * radius],
                      color="#111111", linewidth=1.3, solid_capstyle="butt")
        axes.text(-0.02, radius - 0.4 * width, str(band["i"]), ha="right", va="center", fontsize=7.5, color="#222222",
                  path_effects=[matplotlib.patheffects.withStroke(linewidth=2.2, foreground="white")])
    out = sum(band["out_of_distribution"] for band in method["bands"])
    axes.set_title(f"{NAMES.get(method['method'], method['method'])}\n", fontsize=12, fontweight="bold", pad=2)
    axes.text(0, 1.06, f"{out} of {len(method['bands'])} bands beyond training", ha="center", fontsize=9,
              color=NEW if out else "#444444")
    axes.set_xlim(-1.04, 1.04)
    axes.set_ylim(-1.04, 1.04)
    axes.set_aspect("equal")
    axes.axis("off")


def plot(document, extend, layer, methods):
    plt.rcParams.update({"svg.hashsalt": "ropeline", "font.family": "DejaVu Sans", "font.size": 10.5})
    columns = len(methods)
    rows = 0.42 * columns + 1.0
    width = max(11.5, 2.15 * columns)
    figure = plt.figure(figsize=(width, 2 * rows + 4.6), layout="constrained")
    parts = figure.subfigures(2, 1, height_ratios=[2 * rows + 0.6, 3.6])
    maps = parts[0].subplots(2, 1, sharex=True)
    bands = methods[0]["bands"]

    heat_map(maps[0], methods, "unseen", "Reds", matplotlib.colors.Normalize(0, 1), "share of the arc", parts[0])
    maps[0].set_title("Arc that training never showed\n\n", loc="left", fontsize=12, fontweight="bold")
    mark_turns(maps[0], bands)
    most = max(2.0, *(band["squeeze"] for method in methods for band in method["bands"]))
    bar = heat_map(maps[1], methods, "squeeze", "Blues", matplotlib.colors.LogNorm(1, most), "angle between them", parts[0])
    ticks = [2 ** k for k in range(0, int(math.log2(most)) + 1, max(1, int(math.log2(most)) // 4))]
    bar.set_ticks(ticks, labels=[f"÷ {t}" for t in ticks])
    bar.ax.minorticks_off()
    maps[1].set_title("Neighbouring tokens moved together", loc="left", fontsize=12, fontweight="bold")
    maps[1].set_xlabel("band, from fast (every few tokens a turn) to slow")
    step = max(1, len(bands) // 8)
    shown = sorted(set(range(0, len(bands), step)) - {k for k in range(0, len(bands), step) if len(bands) - 1 - k < step}
                   | {len(bands) - 1})
    maps[1].set_xticks(shown, [str(bands[k]["i"]) for k in shown])

    chosen = chosen_bands(bands)
    circles = parts[1].subplots(1, columns, squeeze=False)[0]
    for axes, method in zip(circles, methods):
        arcs(axes, method, chosen)
    patches = [matplotlib.patches.Patch(color=SEEN, label="angles used that training showed"),
               matplotlib.patches.Patch(color=NEW, label="angles used that are new"),
               matplotlib.lines.Line2D([], [], color="#111111", linewidth=1.5, label="where training ended"),
               matplotlib.patches.Patch(color=TRACK, label="not used")]
    parts[1].legend(handles=patches, loc="lower center", ncols=4, frameon=False, fontsize=9.5)
    parts[1].suptitle("Angles of slow bands, clockwise from the top; a ring is a band, its number to the left of the start",
                      x=0.012, ha="left", fontsize=10.5)
    what = document.get("model") or f"{layer['d_rot']} rotated dimensions"
    figure.suptitle(f"{what}, base {layer['base']:g}: from {tokens(extend['trained_tokens'])} trained tokens to "
                    f"{tokens(extend['context'])}", fontsize=14, fontweight="bold", x=0.012, ha="left")
    return figure


def save(figure, prefix):
    try:
        figure.savefig(prefix + ".svg", metadata={"Date": None, "Creator": "ropeline"})
        figure.savefig(prefix + ".png", dpi=120, metadata={"Software": None})
    except OSError as error:
        raise BadInput(f"{prefix}: cannot be written ({error.strerror}), expected a prefix in a folder that exists") from None
    print(f"{prefix}.png and {prefix}.svg written")


def main():
    prefix, source, flags = parse(sys.argv[1:], __doc__, "rope")
    name = "ropeline rope" if source is None else "standard input" if source == "-" else source
    text = run_ropeline("rope", flags) if source is None else read(source)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{name}: {'is not JSON' if text.strip() else 'is empty'}, {EXPECTED}") from None
    extend, layer, methods = check(document, name)
    save(plot(document, extend, layer, methods), prefix)


try:
    main()
except BadInput as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    sys.exit(2)
