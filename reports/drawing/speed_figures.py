"""Figures of comparisons: ours beside other libraries, on two sets of instructions, and two threads against one. Drawn from rows of the tables."""

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


def peer_rows(table, libraries, cases=None):
    """[(words, [(library, ratio, low, high, peer)])]: each program of ours on one thread beside the fastest program of each library,
    at its largest case, or at `cases` (ids). libraries: {peer: library}; a peer of none goes by its own name."""
    fastest = _fastest(table, libraries)
    shown = _largest(fastest) if cases is None else [key for key in fastest if key[2] in cases]
    return [(_words(*key), sorted(fastest[key].values())) for key in sorted(shown, key=_order)]


def _largest(keys):
    """Returns for every implementation the key (operator, implementation, case) of its largest case, the first if several are
    equal."""
    largest = {}
    for operator, implementation, case in keys:
        key = operator, implementation
        if key not in largest or size_of(case) > size_of(largest[key]):
            largest[key] = case
    return [(*key, case) for key, case in largest.items()]


def target_rows(parts, libraries):
    """[(words, [(set of instructions, ratio, low, high, peer)])]: the fastest other program, at the largest case that all parts have.
    parts: {set of instructions: table}"""
    best = {}
    for words, table in parts.items():
        for key, marks in _fastest(table, libraries).items():
            _, *ratio = min(marks.values(), key=lambda mark: mark[1])
            best.setdefault(key, []).append((words, *ratio))
    best = {key: marks for key, marks in best.items() if len(marks) == len(parts)}
    return [(_words(*key), best[key]) for key in sorted(_largest(best), key=_order)]


def _fastest(table, libraries):
    """{(operator, implementation, case): {library: (library, ratio, low, high, peer)}}"""
    rows = [dict(zip(table.header, row)) for row in table.rows]
    ours = {row["implementation"] for row in rows if row["peer"]} | set(
        plot_style.STYLES
    )  # are compared with one another, too
    result = {}
    for row in rows:
        if row["peer"] in ours | {""} or row["threads"] != 1 or row["backend"] != "cpu":
            continue
        library = libraries.get(row["peer"], row["peer"])
        marks = result.setdefault((row["operator"], row["implementation"], row["case"]), {})
        if library not in marks or row["ratio"] < marks[library][1]:
            marks[library] = (library, row["ratio"], *_ends(row), row["peer"])
    return result


def _order(key):
    operator, implementation, case = key
    return operator, implementation, size_of(case), case


def thread_rows(table):
    rows = [dict(zip(table.header, row)) for row in table.rows]
    return [(_words(row["operator"], row["implementation"], row["case"]), [("two threads", row["ratio"], *_ends(row), "")])
            for row in rows]  # fmt: skip


def _ends(row):
    return [
        None if end in ("nan", None) or not math.isfinite(float(end)) else float(end)
        for end in (row["low"], row["high"])
    ]


RATIO = "time of the other program / time of ours"
TURNS = "one thread; the median over rounds in which both were timed alternately, with its interval. The table has every case and every program."


def _peers_sentence(rows, meanings):
    """Says what the peers are that the rows name. meanings: {peer: what it is}"""
    named = sorted({peer for _, marks in rows for *_, peer in marks})
    known = "; ".join(f"{name} is {meanings[name]}" for name in named if name in meanings)
    return f"At the right: the other programs, in the order of the keys{': ' if known else ''}{known}."


def draw_peers(rows, meanings):
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Ours beside other libraries", RATIO,
        [f"Each of our programs at the largest case that was compared, beside the fastest program of each library, {TURNS}",
         _peers_sentence(rows, meanings)],
    )  # fmt: skip


def draw_untuned(rows, meanings):
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Ours beside other libraries, at sizes that nothing was tuned for", RATIO,
        [f"Beside the fastest program of each library, {TURNS}", _peers_sentence(rows, meanings)],
    )  # fmt: skip


def draw_targets(rows, meanings):
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Ours beside other libraries, by set of instructions", RATIO,
        [f"Both programs are held to the same instructions. The fastest other program, {TURNS}", _peers_sentence(rows, meanings)],
    )  # fmt: skip


def draw_threads(rows, _meanings):
    notes = ["Median of all ratios of two samples, with the interval of the rank test."]
    if any(ratio > 2 for _, marks in rows for _, ratio, *_ in marks):
        notes.append("Two cores have twice the private caches; whether that is why some are above 2 was not examined.")
    return bar_panels.draw_ratios(
        rows, plot_style.look().text, "Two threads against one", "time on one thread / time on two",
        notes, even=True,
    )  # fmt: skip
