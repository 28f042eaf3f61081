"""Studies that are drawn as matrices: which keys queries see, and products before and after a shift."""

import math

import matplotlib.colors
import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.plot_style import BLUE, DARK_GREY, LIGHT_GREY
from reports.drawing.study_page import color_bar, column, new_page

ACROSS = 4  # patterns in a row
SEEN = matplotlib.colors.ListedColormap(["#ffffff", BLUE])


def _frame(page, axes, words, height, width, labels):
    axes.grid(False)
    page.title(axes, words)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)  # queries from the top, as matrices are written
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(LIGHT_GREY)
    for axis, count, label in ((axes.xaxis, width, labels[0]), (axes.yaxis, height, labels[1])):
        axis.set_major_locator(matplotlib.ticker.FixedLocator([0, count - 1]))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
        if label:
            axis.set_label_text(label, fontsize=plot_style.look().text_size)
    axes.tick_params(length=2)
    axes.xaxis.labelpad = axes.yaxis.labelpad = -5


def draw_sparse_patterns(study):
    seen = study.table("seen", "pattern", "query", "key")
    pairs = study.table("pairs", "pattern", "implementation", "pairs")
    names = seen.values("pattern")
    n = study.content["parameters"]["n"]
    sizes = {name: 1 + max(row["query"] for row in seen.where(pattern=name)) for name in names}
    behind = "".join(
        f"; of {name} {size - n} global tokens stand behind them" for name, size in sizes.items() if size > n
    )
    titles = {
        name: f"{name}: {100 * pairs.where(pattern=name)[0]['pairs'] / sizes[name] ** 2:.0f}\u00a0%" for name in names
    }
    page = new_page(
        study, [(1, index > 0, []) for index in range(len(names))], aspect=1.0, most=ACROSS, words=list(titles.values()),
        notes=[f"Filled: the query (row) sees the key (column), of {n}{behind}.", "After each name: the share of pairs that are seen."],
    )  # fmt: skip
    for axes, panel, name in zip(page.axes, page.panels, names):
        image = [[0] * sizes[name] for _ in range(sizes[name])]
        for row in seen.where(pattern=name):
            image[row["query"]][row["key"]] = 1
        axes.imshow(image, cmap=SEEN, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _frame(page, axes, titles[name], sizes[name], sizes[name], ("key", "query" if panel.first else ""))
    return page.finish()


def draw_shifted_scores(study):
    cells = study.table("cells", "matrix", "row", "column", "value")
    names = cells.values("matrix")
    parameters = study.content["parameters"]
    length, width = parameters["L"], parameters["L"] + parameters["M"]
    page = new_page(
        study, [(1, False, []), (1, False, [])], aspect=length / width, after=0.3, least=1.3,
        notes=["(a) Products of every query with every distance, the longest first; B has the entries to the right of the stepped line.",
               "(b) Each row is shifted left by the distance of its query from the last query, and cut off where the future begins.",
               f"L = {length} queries and a memory of M = {parameters['M']}; both panels have the same colours."],
    )  # fmt: skip
    values = [row["value"] for row in cells.rows if row["value"] == row["value"]]
    most = max(abs(value) for value in values)
    titles = {"B~": "before the shift: q Qᵀ", "B": "B: its rows shifted left"}
    for axes, name in zip(page.axes, names):
        image = [[math.nan] * width for _ in range(length)]
        for row in cells.where(matrix=name):
            image[row["row"]][row["column"]] = row["value"]
        drawn = axes.imshow(image, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        color_bar(page, axes, drawn)
        label = "distance from M + L − 1 to 0" if name == "B~" else "key"
        _frame(page, axes, titles.get(name, name), length, width, (label, "query"))
    for query in range(length):
        start = length - 1 - query
        if start:
            page.axes[0].plot([start - 0.5] * 2, [query - 0.5, query + 0.5], color="black", linewidth=0.9)
            page.axes[0].plot([start - 1.5, start - 0.5], [query + 0.5] * 2, color="black", linewidth=0.9)
    if length > 1:
        page.axes[0].xaxis.set_major_formatter(matplotlib.ticker.FixedFormatter([str(width - 1), "0"]))
    return page.finish()


def draw_gates(study):
    """A matrix for each pass: the formulas are its rows, from the one that accepts most, and the lengths its columns."""
    table = study.table("gates", "gate", "own", "operator", "n", "pass", "rows", "wrong_answers", "accepted", "refused")
    own = set(table.values("gate")) - set(table.values("gate", own=""))
    share = {gate: _share(table.where(gate=gate)) for gate in table.values("gate")}
    gates = sorted(share, key=lambda gate: (-share[gate], gate in own))
    sizes = {name: sorted({row["n"] for row in table.where(**{"pass": name})}) for name in table.values("pass")}
    wrong = [
        max(sum(column(table.where(gate=gate, n=n, **{"pass": name}), "wrong_answers")) for gate in gates)
        for name in sizes
        for n in sizes[name]
    ]
    page = new_page(
        study, [(len(lengths), index > 0, []) for index, lengths in enumerate(sizes.values())],
        height=0.145 * plot_style.scale() * len(gates), left=max(map(plot_style.text_width, gates)) + 0.1,
        notes=[f"Numbers: how many wrong answers a formula accepts, of {min(wrong):g} to {max(wrong):g} at each length "
               f"({len(table.values('operator'))} operators). Colour: their share. ×: it refuses a right program of at least one "
               "operator. –: its source tests no gradients by it.",
               f"Rows are sampled, {min(column(table.rows, 'rows'))} to {max(column(table.rows, 'rows'))} of a case; formulas that sum over elements, or allow for a share of wrong ones, accept more in "
               "practice. subquad has two gates: for arithmetic in float32, rounded once, and for arithmetic in bfloat16.",
               _differences(study)],
    )  # fmt: skip
    for index, (axes, (name, lengths)) in enumerate(zip(page.axes, sizes.items())):
        image = [[math.nan] * len(lengths) for _ in gates]
        for y, gate in enumerate(gates):
            for x, n in enumerate(lengths):
                rows = table.where(gate=gate, n=n, **{"pass": name})
                words, color = "–", DARK_GREY
                if rows:
                    image[y][x] = _share(rows)
                    words = f"{sum(column(rows, 'accepted')):g}" + ("×" if any(column(rows, "refused")) else "")
                    color = "white" if image[y][x] > 0.5 else "black"
                axes.text(x, y, words, ha="center", va="center", color=color, fontsize=plot_style.look().text_size)
        axes.imshow(image, cmap="Oranges", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _frame(page, axes, name, len(gates), len(lengths), ("", ""))
        counts = [plot_style.format_count(n) for n in lengths]
        room = page.panels[index].width / len(lengths)
        step = 1 if max(map(plot_style.text_width, [count + "  " for count in counts])) < room else 2
        axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator(range(0, len(lengths), step)))
        axes.xaxis.set_major_formatter(matplotlib.ticker.FixedFormatter(counts[::step]))
        axes.set_xlabel("tokens n", labelpad=1)
        axes.yaxis.set_major_locator(matplotlib.ticker.FixedLocator(range(len(gates))))
        axes.yaxis.set_major_formatter(matplotlib.ticker.FixedFormatter([] if index else gates))
        axes.tick_params(length=0)
    return page.finish()


def _differences(study):
    """Says in what this comparison differs from the tests of the sources."""
    formulas = study.table("formulas", "gate", "against", "made_for")

    def those(**wanted):
        return plot_style.list_words(formulas.values("gate", **wanted))

    return (f"Every formula compares with the exact answer here; the tests of {those(against='bfloat16')} compare with a "
            f"program in bfloat16, {those(against='author')} with what an author gives. Tolerances that "
            f"{those(made_for='attention')} have for softmax attention judge all operators here, on N(0, 1) "
            "numbers.")  # fmt: skip


def _share(rows):
    """The share of wrong answers that are accepted."""
    return sum(column(rows, "accepted")) / sum(column(rows, "wrong_answers"))


DRAWINGS = {"sparse_patterns": draw_sparse_patterns, "shifted_scores": draw_shifted_scores, "gates": draw_gates}
