"""Writes the sentences of captions: how things are drawn, where curves cross, how they grow, and why points are missing."""

import itertools
import re
from collections import Counter

from reports.drawing import layout
from reports.drawing import plot_style

FEWEST_SAMPLES = 10  # fewer are marked
FEWEST_FOR_INTERVAL = 6  # for a 95 % interval of the median
ALIKE = 1.05  # lines that are closer at every size lie on one another
WIDEST_FIT = 0.5  # an exponent whose interval is wider says nothing
LONGEST_REASON = 130  # characters
NUMBER = re.compile(r"[0-9][0-9.,e+-]*( ?([KMGT]iB|[mµn]?s|s|min|h)\b)?")  # with its unit


def mark_kind(row, panel):
    """Returns the mark of a row without a point: its verdict, `zero`, or none."""
    if row["verdict"] != "passed":
        return row["verdict"]
    return "zero" if row[panel.y] == 0 else None


def crossing_text(cross):
    return plot_style.with_interval(cross["n"], cross["low"], cross["high"])


def sentences(content):
    """Returns the sentences for (Panel, Group) pairs without duplicates."""
    groups = _by_group(content)
    results = [_legend(content), *_alike_sentences(content)]
    for panels, group in groups:
        results += _crossover_sentences(panels, group)
    results.append(_margin_sentence([group for _, group in groups]))
    results.append(_reach_sentence(content))
    for panels, group in groups:
        results += _missing_sentences(panels, group)
        results += group.remarks
    return [sentence for sentence in dict.fromkeys(results) if sentence]


def brief(content):
    """The sentences of a short caption, the most important first: the panels, points that are missing, how to read the lines."""
    results = [_panels_sentence([panel for panel, _ in content])] if len(content) > 1 else []
    rows = {(row["case"], row["implementation"]): row for _, group in content for row in group.rows}.values()
    counts = Counter(row["verdict"] for row in rows)
    marked = [sign.replace(" ", f" {counts[verdict]} ", 1) for verdict, sign in SIGNS.items() if counts[verdict]]
    if marked:
        over = any(panel.x == "n" for panel, _ in content)
        results.append(f"{'Points, above the axes' if over else 'Points left out'}: {', '.join(marked)}.")
    if any(mark_kind(row, panel) == "zero" for panel, group in content for row in group.rows if panel.x == "n"):
        results.append("Marks on the lower edge: 0.")
    return results + [
        _sentence(words) for words in dict.fromkeys(words for words, _ in _legend_parts(content)) if words
    ]


def _panels_sentence(panels):
    """`(a)–(b) bidirectional; (c)–(d) masked: time per run, workspace.`"""
    shown = [
        (panel.title, panel.label if panel.x == "n" else f"{panel.label} against {panel.x_label}") for panel in panels
    ]
    for key in (0, 1):
        runs = [
            (words, [item[1 - key] for item in run])
            for words, run in itertools.groupby(shown, lambda element: element[key])
        ]
        starts = itertools.accumulate((len(others) for _, others in runs), initial=0)
        if len(runs) > 1 and runs[0][0] and all(others == runs[0][1] for _, others in runs):
            listed = (f"{layout.letters(start, len(others))} {words}" for start, (words, others) in zip(starts, runs))
            others = ", ".join(filter(None, runs[0][1]))
            return "; ".join(listed) + (f": {others}." if others else ".")
    return (
        "; ".join(f"{layout.letters(index)} {', '.join(filter(None, entry))}" for index, entry in enumerate(shown))
        + "."
    )


def exponents(content):
    """The fitted exponents of (Panel, Group) pairs, a sentence for each panel."""
    return list(dict.fromkeys(s for panels, group in _by_group(content) for s in _fit_sentences(panels, group)))


def few_samples(row, panel):
    """Tells whether a measured point has too few samples for an interval."""
    return bool(panel.low and row[panel.low] and row.get("samples") and row["samples"] < FEWEST_SAMPLES)


def has_meaning(fit):
    """Tells whether an exponent is precise enough to be printed."""
    if fit is None or fit["exponent"] is None:
        return False
    return fit["low"] is None or fit["high"] is None or fit["high"] - fit["low"] <= WIDEST_FIT


WHAT = {"seconds": "time", "workspace_bytes": "workspace"}


def _fit_sentences(panels, group):
    """Exponents of n with their intervals and the class by theory, one sentence for each quantity."""
    results = []
    where = f"{panels[0].title}: " if panels[0].title else ""
    for panel in panels:
        words = []
        for name in group.implementations():
            fit = group.fit(name, panel.quantity)
            if has_meaning(fit):
                algorithm = group.algorithms.get(name)
                known = algorithm[f"{panel.theory}_class"] if panel.theory and algorithm else None
                theory = f" (theory: {known.replace('^2', '²')})" if known else ""
                words.append(f"{name} {plot_style.with_interval(fit['exponent'], fit['low'], fit['high'])}{theory}")
        if words:
            results.append(f"{where}Exponents of n, {WHAT.get(panel.quantity, panel.quantity)}: {_listed(words)}.")
    return results


def _by_group(content):
    """[(panels, group)]: each group once, with the panels that show it."""
    groups = {}
    for panel, group in content:
        groups.setdefault(id(group), ([], group))[0].append(panel)
    return list(groups.values())


SIGNS = {"skipped": "▽ not run", "mistrusted": "◇ mistrusted", "failed": "× failed"}


def _legend(content):
    """Explains, once, whatever a reader cannot guess."""
    parts = [words for _, words in _legend_parts(content)]
    verdicts = {row["verdict"] for _, group in content for row in group.rows}
    if any(panel.x == "n" for panel, _ in content):
        parts += [sign for verdict, sign in SIGNS.items() if verdict in verdicts]
    return _sentence("; ".join(dict.fromkeys(parts)))


def _legend_parts(content):
    """[(in a few words, in full)]; no few words where the legend or an axis has them"""
    parts = []
    panels = [panel for panel, _ in content]
    if any(row[panel.low] for panel, group in content if panel.low for row in group.rows):
        parts.append(("band: interval of the median",) * 2)
    if any(few_samples(row, panel) for panel, group in content for row in group.rows):
        few = f"open marks: fewer than {FEWEST_SAMPLES} samples"
        parts.append((few, f"{few} (below {FEWEST_FOR_INTERVAL} their band is their range and no 95 % interval)"))
    parts += [(panel.thin_meaning,) * 2 for panel, group in content
              if panel.thin and any(row[panel.thin] for row in group.rows)]  # fmt: skip
    if any(algorithm[f"{panel.theory}_class"] for panel, group in content if panel.theory
           for algorithm in group.algorithms.values()):  # fmt: skip
        parts.append(("", "grey: growth by theory through the largest n"))
    if any(
        cross["n"] and cross["quantity"] == panel.quantity for panel, group in content for cross in group.crossovers
    ):
        parts.append(("", "rings: crossovers"))
    if any(panel.frontier for panel in panels):
        stairs = "grey steps: the implementations that no other beats in both quantities at that n"
        lines = any(len({row["n"] for row in group.rows}) > 1 for panel, group in content if panel.frontier)
        parts.append((stairs, f"{stairs}; lines run from small to large n" if lines else stairs))
    parts += [("", f"speed-up: time of {panel.against} / time")
              for panel in panels if panel.against]  # fmt: skip
    return parts


def _alike_sentences(content):
    """Names lines of a panel that coincide."""
    results = []
    for index, (panel, group) in enumerate(content):
        if panel.x != "n":
            continue
        lines = {}
        for row in group.rows:
            if row["verdict"] == "passed" and row[panel.y]:
                lines.setdefault(row["implementation"], {})[row["n"]] = row[panel.y]
        clusters = []
        for name, line in lines.items():
            near = next((cluster for cluster in clusters if _alike(lines[cluster[0]], line)), None)
            if near:
                near.append(name)
            else:
                clusters.append([name])
        where = f"{layout.letters(index)} " if len(content) > 1 else ""
        percent = round(100 * (ALIKE - 1))
        results += [
            f"{where}{plot_style.list_words(names, '; ')} coincide within {percent} %."
            for names in clusters
            if len(names) > 1
        ]
    return results


def _alike(entry, other):
    shared = entry.keys() & other.keys()
    return len(shared) >= 3 and all(1 / ALIKE <= entry[n] / other[n] <= ALIKE for n in shared)


def _reach_sentence(content):
    """Returns the last size of each line, if they differ."""
    largest = {}
    for panel, group in content:
        for row in group.rows if panel.x == "n" else ():
            if row["verdict"] == "passed":
                largest[row["implementation"]] = max(row["n"], largest.get(row["implementation"], 0))
    sizes = Counter(largest.values()).most_common()
    if len(sizes) < 2:
        return ""
    write = plot_style.counts_format(largest.values())
    ends = [
        f"{write(n)} of {plot_style.list_words([name for name in largest if largest[name] == n], '; ')}"
        for n, _ in sizes[1:]
    ]
    return f"Largest measured n: {_listed(ends)}; {write(sizes[0][0])} of the rest."


def _margin_sentence(groups):
    """Returns the smallest margin, if every point that passed has one."""
    passed = [row for group in groups for row in group.rows if row["verdict"] == "passed"]
    if not passed or any(row.get("margin") is None for row in passed):
        return ""
    row = min(passed, key=lambda row: row["margin"])
    return (f"Every point was checked: the nearest wrong answer ({row['nearest']}) is {row['margin']:.2g} tolerances away, at "
            f"n = {row['n']:g} of {row['implementation']}.")  # fmt: skip


def _sentence(text):
    return text[:1].upper() + text[1:] + "." if text else ""


# Sentences about pairs without a crossover, by the kind of reason. Pairs with too few common sizes have none.
WITHOUT_CROSSING = {
    "better at every size": (("needs", "need"), "less {what} than {dense} at every size measured"),
    "not better at the largest size": (
        ("does not need", "do not need"),
        "less {what} than {dense} at the largest size",
    ),
}


def _crossover_sentences(panels, group):
    """One sentence for each quantity and baseline: where it is overtaken, or by what throughout or never."""
    quantities = {panel.quantity for panel in panels}
    crossed, others = {}, {}
    where = f"{panels[0].title}: " if panels[0].title else ""
    for cross in group.crossovers:
        if cross["quantity"] not in quantities:
            continue
        what = WHAT[cross["quantity"]]
        if cross["n"] is not None:
            crossed.setdefault((what, cross["dense"]), []).append(f"{cross['fast']} from n = {crossing_text(cross)}")
            continue
        for start, told in WITHOUT_CROSSING.items():
            if (cross.get("reason") or "").startswith(start):
                others.setdefault((told, what, cross["dense"]), []).append(cross["fast"])
    sentences = [f"{where}Less {what} than {dense}: {_listed(fast)}." for (what, dense), fast in crossed.items()]
    for ((verbs, rest), what, dense), fast in others.items():
        verb = verbs[len(fast) > 1]
        sentences.append(f"{where}{_listed(fast)} {verb} {rest.format(what=what, dense=dense)}.")
    return sentences


def _listed(names):
    return "; ".join(names)  # labels may contain commas


def _missing_sentences(panels, group):
    """One sentence for each implementation and reason, with the n it holds for."""
    result = {}
    for row in group.rows:
        if row["verdict"] != "passed":
            pattern = NUMBER.sub("#", row["reason"] or "")
            result.setdefault((row["implementation"], row["verdict"], pattern), []).append(row)
    sentences = []
    for (name, verdict, _), rows in result.items():
        reason = _shortened(rows[0]["reason"] or "no reason given")
        differing = len({row["reason"] for row in rows}) > 1
        where = f" (at {_count(rows[0])})" if differing else ""
        stop = "" if reason.endswith("…") and not where else "."
        sentences.append(f"{name}, {_n_range(rows, group)}, {verdict}: {reason}{where}{stop}")
    for panel in panels:
        for name in group.implementations():
            rows = [row for row in group.rows if row["implementation"] == name and mark_kind(row, panel) == "zero"]
            if rows:
                edge = " (marks on the lower edge)" if panel.x == "n" else ""
                sentences.append(f"{name}, {_n_range(rows, group)}: {panel.label} = 0{edge}.")
    return sentences


def _count(row):
    return f"n = {plot_style.format_count(row['n'])}"


def _n_range(rows, group):
    """`n = 64 to 1Ki` where the rows are neighbours among the implementation's, else the list."""
    sizes = [row["n"] for row in rows]
    tried = [row["n"] for row in group.rows if row["implementation"] == rows[0]["implementation"]]
    texts = list(map(plot_style.counts_format(sizes), sizes))
    if len(sizes) > 2 and sum(sizes[0] <= n <= sizes[-1] for n in tried) == len(sizes):
        texts = [f"{texts[0]} to {texts[-1]}"]
    elif len(sizes) > 5:
        texts = [*texts[:4], f"… {texts[-1]}"]
    return "n = " + ", ".join(texts)


def _shortened(reason):
    reason = " ".join(reason.split()).rstrip(".")
    if len(reason) <= LONGEST_REASON:
        return reason
    return reason[:LONGEST_REASON].rsplit(" ", 1)[0].rstrip(",;:") + " …"
