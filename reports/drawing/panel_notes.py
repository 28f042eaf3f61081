"""The words under a figure's axes: what is drawn how, where curves cross, and why points are missing."""

import re

from reports.drawing import plot_style

MOST_NOTES = 12  # lines
LONGEST_REASON = 130  # characters
NUMBER = re.compile(r"[0-9][0-9.,e+-]*( ?([KMGT]iB|[mµn]?s|s|min|h)\b)?")  # with its unit


def mark_kind(row, panel):
    """How a row without a point is marked: by its verdict, as `zero`, or not at all."""
    if row["verdict"] != "passed":
        return row["verdict"]
    return "zero" if row[panel.y] == 0 else None


def crossing_text(cross):
    return plot_style.with_interval(cross["n"], cross["low"], cross["high"])


def lines(content, width):
    """Wrapped lines for (Panel, Group) pairs."""
    sentences = [_legend(content)]
    told = set()
    groups = _by_group(content)
    for panels, group in groups:
        sentences += _crossover_sentences(panels, group)
    for panels, group in groups:
        sentences += _missing_sentences(panels, group)
        sentences += group.remarks
    wrapped = []
    for sentence in sentences:
        if sentence and sentence not in told:
            told.add(sentence)
            wrapped += plot_style.wrap(sentence, width - 0.05)
    if len(wrapped) > MOST_NOTES:
        wrapped = wrapped[: MOST_NOTES - 1] + ["… more in the CSV files"]
    return wrapped


def _by_group(content):
    """[(panels, group)]: each group once, with the panels that show it."""
    groups = {}
    for panel, group in content:
        groups.setdefault(id(group), ([], group))[0].append(panel)
    return list(groups.values())


def _legend(content):
    """Explains, once, whatever a reader cannot guess."""
    parts = []
    panels = [panel for panel, _ in content]
    if any(row[panel.low] for panel, group in content if panel.low for row in group.rows):
        parts.append("band: interval of the median")
    parts += [panel.thin_meaning for panel, group in content
              if panel.thin and any(row[panel.thin] for row in group.rows)]  # fmt: skip
    if any(algorithm[f"{panel.theory}_class"] for panel, group in content if panel.theory
           for algorithm in group.algorithms.values()):  # fmt: skip
        parts.append("grey: growth by theory through the largest n")
    if any(panel.frontier for panel in panels):
        parts.append("thick grey: implementations that no other beats at that n; lines run from small to large n")
    verdicts = {row["verdict"] for _, group in content for row in group.rows}
    if any(panel.x == "n" for panel in panels):
        signs = {"skipped": "▽ not run", "mistrusted": "◇ mistrusted", "failed": "× failed"}
        parts += [sign for verdict, sign in signs.items() if verdict in verdicts]
    return _sentence("; ".join(dict.fromkeys(parts)))


def _sentence(text):
    return text[:1].upper() + text[1:] + "." if text else ""


# What is said of pairs without a crossing, by how the program's reason begins. Of pairs with too few sizes in common
# nothing is.
WITHOUT_CROSSING = {
    "better at every size": (("needs", "need"), "less {what} than {dense} at every size measured"),
    "not better at the largest size": (
        ("does not need", "do not need"),
        "less {what} than {dense} at the largest size",
    ),
}


def _crossover_sentences(panels, group):
    """One sentence for each crossover, and one for all that are ahead of the same implementation throughout."""
    quantities = {panel.quantity for panel in panels}
    sentences, others = [], {}
    where = f"{panels[0].title}: " if panels[0].title else ""
    for cross in group.crossovers:
        if cross["quantity"] not in quantities:
            continue
        what = {"seconds": "time", "workspace_bytes": "workspace"}[cross["quantity"]]
        if cross["n"] is not None:
            n = crossing_text(cross)
            sentences.append(f"{where}{cross['fast']} needs less {what} than {cross['dense']} from n = {n}.")
            continue
        for start, told in WITHOUT_CROSSING.items():
            if (cross.get("reason") or "").startswith(start):
                others.setdefault((told, what, cross["dense"]), []).append(cross["fast"])
    for ((verbs, rest), what, dense), fast in others.items():
        verb = verbs[len(fast) > 1]
        sentences.append(f"{where}{_listed(fast)} {verb} {rest.format(what=what, dense=dense)}.")
    return sentences


def _listed(names):
    return "; ".join(names)  # labels may contain commas


def _missing_sentences(panels, group):
    """One sentence for each implementation and reason, with the n it holds for."""
    found = {}
    for row in group.rows:
        if row["verdict"] != "passed":
            pattern = NUMBER.sub("#", row["reason"] or "")
            found.setdefault((row["implementation"], row["verdict"], pattern), []).append(row)
    sentences = []
    for (name, verdict, _), rows in found.items():
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
    texts = [plot_style.format_count(n) for n in sizes]
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
