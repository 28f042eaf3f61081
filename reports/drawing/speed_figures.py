"""Figures of comparisons: peers at the largest case of each program, and two threads against one. Drawn from rows of the tables."""

import math
import re

from reports.drawing import bar_panels
from reports.drawing import plot_style


def size_of(case):
    """Tokens or pixels of a case id."""
    settings = dict(re.findall(r"(\w+)=([^,]+)", case.partition(":")[2]))
    if "height" in settings and "width" in settings:
        return int(settings["height"]) * int(settings["width"])
    return int(settings.get("n") or settings.get("n_q") or settings.get("L") or 0)


def _words(operator, implementation, case):
    n = plot_style.format_count(size_of(case))
    return f"{operator.replace('_', ' ')}, {implementation}, n = {n}"


def peer_rows(table, threads=1):
    """[(words, [(peer, ratio, low, high)])]: each program of ours at its largest case beside somebody else's program."""
    rows = [dict(zip(table.header, row)) for row in table.rows]
    # Ours are compared with one another, too.
    ours = {row["implementation"] for row in rows if row["peer"]} | set(plot_style.STYLES)
    rows = [row for row in rows
            if row["peer"] not in ours | {""} and row["threads"] == threads and row["backend"] == "cpu"]  # fmt: skip
    largest = {}
    for row in rows:
        key = row["operator"], row["implementation"]
        if size_of(row["case"]) > size_of(largest.get(key, row)["case"]) or key not in largest:
            largest[key] = row
    found = []
    for (operator, implementation), chosen in sorted(largest.items()):
        marks = [(row["peer"], row["ratio"], *_ends(row)) for row in rows
                 if (row["operator"], row["implementation"], row["case"]) == (operator, implementation, chosen["case"])]  # fmt: skip
        found.append((_words(operator, implementation, chosen["case"]), marks))
    return found


def thread_rows(table):
    rows = [dict(zip(table.header, row)) for row in table.rows]
    return [(_words(row["operator"], row["implementation"], row["case"]), [("two threads", row["ratio"], *_ends(row))])
            for row in rows]  # fmt: skip


def _ends(row):
    return [
        None if end in ("nan", None) or not math.isfinite(float(end)) else float(end)
        for end in (row["low"], row["high"])
    ]


def draw_peers(rows):
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Ours beside other programs", "time of the other program / time of ours",
        ["Each program at the largest case that was compared, one thread; the median over rounds in which both were timed in turns, "
         "with its interval. The table has every case."],
    )  # fmt: skip


def draw_threads(rows):
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Two threads against one", "time on one thread / time on two",
        ["Median of all ratios of two samples, with the interval of the rank test."],
    )  # fmt: skip
