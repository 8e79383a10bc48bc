#!/usr/bin/env python3
"""Draws the attention study: time and peak memory against sequence length, one line per implementation.

  python3 tools/plot_attention.py results/attention/attention.jsonl --d-model 64 --output docs/attention.svg

Needs Python 3.8 and nothing else. Of rows measured twice the later one counts. A row that ran out of memory has
no time; its predicted peak is drawn hollow. The footer says which machine and command the figures come from.
"""
import argparse
import json
import math
import shlex
import sys
from html import escape

WIDTH, HEIGHT = 980, 520
PANEL_TOP, PANEL_HEIGHT, PANEL_WIDTH = 122, 270, 370
PANEL_LEFTS = (84, 566)
INK, FAINT, GRID, PAPER = "#1f2933", "#52606d", "#d9dee4", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#806000")  # told apart by colour-blind readers too
MIB = 1024 * 1024


def read_rows(path, d_model):
    """The attention records of one width, in the order of the file, the later of two equal rows."""
    rows = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if record["study"] != "attention" or record["workload"]["d_model"] != d_model:
                    continue
                key = json.dumps([record["implementation"], record["workload"], record["settings"]], sort_keys=True)
                rows[key] = record
            except (ValueError, KeyError, TypeError):
                print(f"{path} line {number} is not a record; passed over", file=sys.stderr)
    return list(rows.values())


def workload_keys(rows):
    """Workload keys other than the two axes, split into those that all rows share and those that differ."""
    keys = ("batch_size", "heads", "causal", "dtype")
    differing = [key for key in keys if len({json.dumps(row["workload"].get(key)) for row in rows}) > 1]
    return [key for key in keys if key not in differing], differing


def in_words(key, value):
    if key == "causal":
        return "causal" if value else "not causal"
    return str(value) if key == "dtype" else f"{key.replace('_size', '')} {value}"


def lines_of(rows):
    """label -> {"time": [(S, ms)], "memory": [(S, MiB)], "oom": [(S, predicted MiB)]}"""
    _, differing = workload_keys(rows)
    lines = {}
    for row in rows:
        label = " ".join([row["implementation"]] + [in_words(key, row["workload"].get(key)) for key in differing])
        line = lines.setdefault(label, {"time": [], "memory": [], "oom": []})
        length, memory = row["workload"]["seq_len"], row.get("memory", {})
        if row["status"] == "ok":
            medians = [row["series"][phase]["statistics"]["median_ms"] for phase in ("forward", "backward")]
            line["time"].append((length, sum(medians)))
            line["memory"].append((length, memory["peak_bytes"] / MIB))
        elif row["status"] == "oom" and "predicted_peak_bytes" in memory:
            line["oom"].append((length, memory["predicted_peak_bytes"] / MIB))
    for line in lines.values():
        for points in line.values():
            points.sort()
    return lines


def merged_command(rows):
    """The parts of one command for all rows: flags whose values differ get the list of them."""
    flags, words = {}, []
    for row in rows:
        name = None
        for word in shlex.split(row.get("command", "")):
            if word.startswith("--"):
                name = word
                flags.setdefault(name, [])
            elif name is None:
                words += [word] if word not in words else []
            elif word not in flags[name]:
                flags[name].append(word)
    return [" ".join(words)] + [" ".join([name, ",".join(values)]).strip() for name, values in flags.items()]


def wrapped(parts, width):
    """Lines of at most `width` characters; a flag stays beside its value."""
    out = [""]
    for part in parts:
        if out[-1] and len(out[-1]) + 1 + len(part) > width:
            out.append("  ")
        out[-1] += (" " if out[-1].strip() else "") + part
    return out


def machine_text(row):
    machine, settings, build = row.get("machine", {}), row.get("settings", {}), row.get("build", {})
    parts = [machine.get("cpu_model", "unknown processor"), f"{settings.get('threads', '?')} threads",
             settings.get("isa", ""), machine.get("os", ""), "ridgeline " + build.get("version", "?")]
    if build.get("git_commit"):
        parts[-1] += f" ({build['git_commit']})"
    return ", ".join(part for part in parts if part)


def text(x, y, words, size=12, anchor="start", colour=INK, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{extra}>'
            f"{escape(words)}</text>")


def marker(shape, x, y, colour, hollow=False):
    style = f'fill="{PAPER if hollow else colour}" stroke="{colour}" stroke-width="1.8"'
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'
    if shape == 1:
        return f'<rect x="{x - 3.8:.1f}" y="{y - 3.8:.1f}" width="7.6" height="7.6" {style}/>'
    corners = ((0, -5), (5, 4), (-5, 4)) if shape == 2 else ((0, -5.4), (5.4, 0), (0, 5.4), (-5.4, 0))
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" {style}/>'


class LogAxis:
    """Maps positive values to [start, end] by their logarithm."""

    def __init__(self, low, high, start, end):
        self.low, self.high = math.log10(low), math.log10(high)
        self.start, self.end = start, end

    def at(self, value):
        share = (math.log10(value) - self.low) / max(self.high - self.low, 1e-9)
        return self.start + share * (self.end - self.start)


def plain(value):
    return f"{value:g}" if value < 1e6 else f"{value:.0e}"


def panel(left, title, unit, lines, kind):
    """One log-log panel. `kind` is "time" or "memory"; only memory has points for rows out of memory."""
    hollow_kind = "oom" if kind == "memory" else None
    drawn = {label: (line[kind], line[hollow_kind] if hollow_kind else []) for label, line in lines.items()}
    points = [point for solid, hollow in drawn.values() for point in solid + hollow]
    out = [text(left, PANEL_TOP - 14, title, 14, extra=' font-weight="600"')]
    if not points:
        return out + [text(left, PANEL_TOP + 40, "no rows with a result", 12, colour=FAINT)]
    lengths = sorted({x for line in lines.values() for group in line.values() for x, _ in group})  # of both panels
    low = 10 ** math.floor(math.log10(min(y for _, y in points)))
    high = 10 ** math.ceil(math.log10(max(y for _, y in points) * 1.0001))
    bottom, right = PANEL_TOP + PANEL_HEIGHT, left + PANEL_WIDTH
    x_axis = LogAxis(lengths[0] / 1.2, lengths[-1] * 1.2, left, right)
    y_axis = LogAxis(low, high, bottom, PANEL_TOP)

    decade = low
    while decade <= high * 1.0001:
        y = y_axis.at(decade)
        out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{GRID}"/>')
        out.append(text(left - 8, y + 4, plain(decade), 11, "end", FAINT))
        decade *= 10
    last_label = -math.inf
    for length in lengths:
        x = x_axis.at(length)
        out.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{PANEL_TOP}" stroke="{GRID}"/>')
        if x - last_label >= 36:  # room for a label of five digits
            out.append(text(x, bottom + 17, str(length), 11, "middle", FAINT))
            last_label = x
    out.append(f'<rect x="{left}" y="{PANEL_TOP}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" '
               f'stroke="{FAINT}"/>')
    out.append(text(left + PANEL_WIDTH / 2, bottom + 37, "sequence length", 12, "middle"))
    middle = PANEL_TOP + PANEL_HEIGHT / 2
    out.append(text(left - 56, middle, unit, 12, "middle", extra=f' transform="rotate(-90 {left - 56} {middle})"'))

    for index, (solid, hollow) in enumerate(drawn.values()):
        colour, shape = COLOURS[index % len(COLOURS)], index % 4
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in solid)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        out += [marker(shape, x_axis.at(x), y_axis.at(y), colour) for x, y in solid]
        for x, y in hollow:
            out.append(marker(shape, x_axis.at(x), y_axis.at(y), colour, hollow=True))
            out.append(text(x_axis.at(x) - 9, y_axis.at(y) + 4, "OOM", 10, "end", colour))
    return out


def legend(lines):
    out, x = [], PANEL_LEFTS[0]
    for index, label in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        out.append(f'<line x1="{x}" y1="66" x2="{x + 28}" y2="66" stroke="{colour}" stroke-width="2.2"/>')
        out += [marker(index % 4, x + 14, 66, colour), text(x + 36, 70, label, 13)]
        x += 66 + 8 * len(label)
    if any(line["oom"] for line in lines.values()):
        out.append(text(x, 70, "hollow: out of memory, predicted peak", 12, colour=FAINT))
    return out


def draw(rows, d_model):
    lines = lines_of(rows)
    shared, _ = workload_keys(rows)
    about = ", ".join([f"d_model {d_model}"] + [in_words(key, rows[0]["workload"].get(key)) for key in shared])
    command = wrapped(merged_command(rows), 140)
    height = HEIGHT - 15 + 15 * len(command)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           f'font-family="system-ui, \'Segoe UI\', \'DejaVu Sans\', Helvetica, Arial, sans-serif" role="img">',
           f"<title>{escape('Attention: ' + about)}</title>",
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}" stroke="{GRID}"/>',
           text(28, 38, f"Attention on {rows[0].get('device', '?').upper()}: {about}", 18, extra=' font-weight="600"')]
    out += legend(lines)
    out += panel(PANEL_LEFTS[0], "Time, forward + backward", "median ms", lines, "time")
    out += panel(PANEL_LEFTS[1], "Peak memory of tensors", "MiB", lines, "memory")
    out.append(text(28, 466, machine_text(rows[0]), 11, colour=FAINT))
    for number, part in enumerate(command):
        mono = " font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, monospace\""
        out.append(text(28, 488 + 15 * number, part, 10.5, colour=FAINT, extra=mono + ' xml:space="preserve"'))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="a results file (.jsonl) of the attention study")
    parser.add_argument("--d-model", type=int, default=64, help="which width to draw (default: 64)")
    parser.add_argument("--output", default="attention.svg", help="the SVG to write (default: attention.svg)")
    args = parser.parse_args()
    try:
        rows = read_rows(args.results, args.d_model)
    except OSError as error:
        sys.exit(f"plot_attention: cannot read {args.results}: {error.strerror}")
    if not rows:
        sys.exit(f"plot_attention: {args.results} has no attention rows with d_model {args.d_model}")
    with open(args.output, "w", encoding="utf-8") as svg:
        svg.write(draw(rows, args.d_model))
    print(f"{args.output}: {len(rows)} rows")


if __name__ == "__main__":
    main()
