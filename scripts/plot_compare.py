#!/usr/bin/env python3
"""Draws what `ropeline compare` says: time of each position encoding in one layer's prefill, against tokens.

usage: scripts/plot_compare.py [--out PREFIX] [flags of ropeline compare]
       scripts/plot_compare.py [--out PREFIX] --from FILE
       ropeline compare --json | scripts/plot_compare.py [--out PREFIX]

Writes PREFIX.png and PREFIX.svg; without --out, compare.png and compare.svg beside the machine's bench.json.
--from FILE reads what `ropeline compare --json` wrote; - is standard input. With flags, or where standard input
is a terminal, build/ropeline is run.
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
    print("scripts/plot_compare.py: matplotlib is not installed, expected Debian's python3-matplotlib", file=sys.stderr)
    sys.exit(2)

matplotlib.use("Agg")
import matplotlib.lines  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import matplotlib.ticker  # noqa: E402

from plot_input import BadInput, parse, read, run_ropeline  # noqa: E402

# Colours from dark to light, one for each encoding of a placement.
PLACEMENTS = {
    "input_add": ("input add, once", ["#08519c", "#6baed6", "#3182bd", "#9ecae1"]),
    "score_bias": ("score bias, every layer",
                   ["#7f2704", "#f67824", "#b93d02", "#fdae6b", "#a63603", "#e0a11b", "#d94801", "#fdd0a2"]),
    "qk_rotation": ("Q/K rotation, every layer",
                    ["#00441b", "#74c476", "#1b7837", "#2ca9a1", "#238b45", "#c2e699", "#41ab5d"]),
}
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h"]
GREY = "#6f6f6f"


def finite(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check(document, name):
    expected = "expected what `ropeline compare --json` writes"
    for key in ("curve", "beside", "inputs"):
        if not isinstance(document, dict) or key not in document:
            raise BadInput(f"{name}: {key}: is missing, {expected}")
    try:
        for entry in document["curve"]:
            entry["encoding"] + entry["placement"]
            for point in entry["points"]:
                if not finite(point["n"]) or point["n"] <= 0:
                    raise BadInput(f"{name}: curve: n is {point['n']!r}, {expected}")
                if point["prefill_ms"] is not None and not finite(point["prefill_ms"]):
                    raise BadInput(f"{name}: curve: prefill_ms is {point['prefill_ms']!r}, {expected}")
                point["measured"], point["extrapolated"]
        for point in document["beside"]:
            if not finite(point["n"]) or not finite(point["layer_ms"]):
                raise BadInput(f"{name}: beside: holds no numbers, {expected}")
        inputs = document["inputs"]
        inputs["model"], inputs["dtype"], inputs["threads"], inputs["machine"]["source"]
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(f"{name}: {str(error)[:80]}: is missing or of another type, {expected}") from None
    if not any(drawn(entry) for entry in document["curve"]):
        raise BadInput(f"{name}: curve: has no point above zero, {expected}")


def drawn(entry):
    return [point for point in entry["points"] if point["prefill_ms"]]


def tokens(n, _=None):
    n = int(round(n))
    return f"{n // 1024}k" if n >= 1024 and n % 1024 == 0 else str(n)


def milliseconds(ms, _=None):
    for scale, unit in ((1e3, "s"), (1, "ms"), (1e-3, "µs"), (1e-6, "ns")):
        if ms >= scale * 0.999:
            return f"{ms / scale:,.0f} {unit}"
    return f"{ms:g} ms"


def draw_line(axes, points, **style):
    """Solid within the sizes measured, dashed beyond them."""
    dashed = {**style, "linestyle": (0, (2.2, 1.4)), "dash_capstyle": "butt"}
    for left, right in zip(points, points[1:]):
        beyond = left["extrapolated"] or right["extrapolated"]
        axes.plot([left["n"], right["n"]], [left["prefill_ms"], right["prefill_ms"]],
                  **(dashed if beyond else {**style, "solid_capstyle": "round"}))


def draw_markers(axes, points, marker, colour, size, order):
    for point in points:
        if point["measured"]:
            fill = colour
        elif point.get("row_n") == point["n"] and not point["extrapolated"]:
            fill = "white"
        else:
            continue
        axes.plot([point["n"]], [point["prefill_ms"]], linestyle="none", marker=marker, markersize=size,
                  markerfacecolor=fill, markeredgecolor="white" if fill == colour else colour,
                  markeredgewidth=0.7 if fill == colour else 1.4, zorder=order)


def cache_note(document):
    """Lines steepen where the nearest measured row is no longer one in a cache."""
    hot = [point["n"] for entry in document["curve"] for point in entry["points"] if point.get("row_cache") == "hot"]
    cold = [point["n"] for entry in document["curve"] for point in entry["points"] if point.get("row_cache") == "cold"]
    if not hot or not cold:
        return ""
    if max(hot) >= min(cold):
        return "(small tensors from rows measured in a cache, large ones from main memory: hence the steps)"
    return f"(up to {tokens(max(hot))} tokens from rows measured in a cache, beyond from main memory: hence the step)"


def heading(text):
    return matplotlib.lines.Line2D([], [], linestyle="none", label=text)


def plot(document):
    inputs = document["inputs"]
    machine = inputs["machine"]
    plt.rcParams.update({"svg.hashsalt": "ropeline", "font.family": "DejaVu Sans", "font.size": 11,
                         "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(12.5, 7.2))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    legend = []
    beside = [point for point in document["beside"] if point["layer_ms"] > 0]
    line, = axes.plot([p["n"] for p in beside], [p["layer_ms"] for p in beside], color=GREY, linewidth=3,
                      label="matrices and attention, at the limit", zorder=1)
    legend += [heading("One layer without position"), line]
    for placement, (title, colours) in PLACEMENTS.items():
        entries = [entry for entry in document["curve"] if entry["placement"] == placement]
        if not entries:
            continue
        legend += [heading(""), heading(title[0].upper() + title[1:])]
        visible = [entry for entry in entries if drawn(entry)]
        for i, entry in enumerate(visible):
            # Lines that coincide lie within one another: the first is the widest, each next one narrower.
            narrow = len(visible) - 1 - i
            width = 1.6 + min(1.5, 7.0 / max(1, len(visible))) * narrow
            size = 6.5 + min(2.0, 9.0 / max(1, len(visible))) * narrow
            colour = colours[i % len(colours)]
            marker = MARKERS[i % len(MARKERS)]
            points = drawn(entry)
            draw_line(axes, points, color=colour, linewidth=width, alpha=0.85, zorder=3 + i)
            draw_markers(axes, points, marker, colour, size, 20 + i)
            legend.append(matplotlib.lines.Line2D([], [], color=colour, linewidth=min(width, 4), marker=marker,
                                                  markersize=7, markeredgecolor="white", label=entry["encoding"]))
        for entry in entries:
            if not drawn(entry):
                why = "nothing to do" if entry["points"] else "cannot take this shape"
                legend.append(heading(f"{entry['encoding']}: {why}"))
    legend += [
        heading(""), heading("Where a time comes from"),
        matplotlib.lines.Line2D([], [], linestyle="none", marker="o", color=GREY, markeredgecolor="white",
                                markersize=8, label="measured at this very shape"),
        matplotlib.lines.Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=GREY,
                                markeredgewidth=1.4, markersize=7, label="measured at this N, scaled in width"),
        matplotlib.lines.Line2D([], [], color=GREY, linewidth=2, label="between measured sizes"),
        matplotlib.lines.Line2D([], [], color=GREY, linewidth=2, linestyle=(0, (2.2, 1.4)),
                                label="beyond them, or never measured"),
    ]
    counts = sorted({point["n"] for entry in document["curve"] for point in entry["points"]} | {p["n"] for p in beside})
    axes.set_xticks(counts)
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(tokens))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(base=10, numticks=20))
    axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(milliseconds))
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("N, tokens of the prompt (log scale)\n" + cache_note(document))
    axes.set_ylabel("time of one application: per layer; input adds: once\n(log scale, unit at each mark)")
    shape = inputs.get("shape") or {}
    model = inputs["model"]
    if shape and not shape.get("of_the_model", True):
        model += f" with {shape['n_heads']}/{shape['n_kv_heads']} heads of {shape['d_head']}"
    threads = inputs["threads"]
    facts = [machine.get("cpu_model"), machine.get("target"), f"{threads} thread{'' if threads == 1 else 's'}",
             f"activations in {inputs['dtype']}",
             f"measured {machine['measured'][:10]}" if machine.get("measured") else None]
    axes.set_title(f"What position costs one layer of {model} in prefill\n", loc="left", fontsize=14, fontweight="bold")
    axes.text(0, 1.02, ", ".join(fact for fact in facts if fact), transform=axes.transAxes, fontsize=10.5, color="#444444")
    box = axes.legend(handles=legend, loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False, fontsize=9.5,
                      handlelength=2.6, labelspacing=0.35, borderaxespad=0)
    titles = {"One layer without position", "Where a time comes from"}
    titles |= {title[0].upper() + title[1:] for title, _ in PLACEMENTS.values()}
    for text in box.get_texts():
        if text.get_text() in titles:
            text.set_fontweight("bold")
    return figure


def save(figure, prefix):
    try:
        figure.savefig(prefix + ".svg", bbox_inches="tight", metadata={"Date": None, "Creator": "ropeline"})
        figure.savefig(prefix + ".png", bbox_inches="tight", dpi=130, metadata={"Software": None})
    except OSError as error:
        raise BadInput(f"{prefix}: cannot be written ({error.strerror}), expected a prefix in a folder that exists") from None
    print(f"{prefix}.png and {prefix}.svg written")


def main():
    prefix, source, flags = parse(sys.argv[1:], __doc__)
    name = "ropeline compare" if source is None else "standard input" if source == "-" else source
    text = run_ropeline("compare", flags) if source is None else read(source)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{name}: {'is not JSON' if text.strip() else 'is empty'}, "
                       "expected what `ropeline compare --json` writes") from None
    check(document, name)
    if prefix is None:
        prefix = os.path.join(os.path.dirname(document["inputs"]["machine"]["source"]), "compare")
    save(plot(document), prefix)


try:
    main()
except BadInput as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    sys.exit(2)
