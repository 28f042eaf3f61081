"""Tables from recipes: cells picked by hand, or every exponent and crossover; as Markdown, LaTeX (booktabs) and CSV."""

import csv
import dataclasses
import io
import re

from reports.drawing import panel_notes
from reports.drawing import plot_style
from reports.drawing import ratio_panels
from reports.files import recipe_file
from reports.drawing.recipe_figure import Unmeasured, Unserved, common_settings
from reports.files.result_file import InputError

FORMATS = {
    "seconds": plot_style.format_seconds,
    "setup_seconds": plot_style.format_seconds,
    "workspace_bytes": plot_style.format_bytes,
    "resident_bytes": plot_style.format_bytes,
    "max_error": plot_style.format_error,
    "error": plot_style.format_error,
    "error_ratio": plot_style.format_plain,
}
HEADS = {"seconds": "time per run", "workspace_bytes": "workspace", "max_error": "largest error", "error_ratio":
         "error / plain dense", "resident_bytes": "peak resident set"}  # fmt: skip
NOT_APPLICABLE, NOT_THERE = "–", "?"
SPECIAL = {
    "–": "--",
    "±": r"$\pm$",
    "²": "$^2$",
    "µ": r"$\mu$",
    "_": r"\_",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "^": r"\^{}",
}


@dataclasses.dataclass
class Table:
    heads: list  # (words, columns that they span): the upper line, or empty
    columns: list
    blocks: list  # (label or "", rows of texts)
    note: str
    header: list  # of the CSV file
    rows: list
    points: list  # used; empty where the table is made from whole files

    def markdown(self):
        lines = []
        names = self.columns
        if self.heads:
            names, place = [], 0
            for words, span in self.heads:
                for column in self.columns[place : place + span]:
                    names.append(f"{words}: {column}" if words else column)
                place += span
        lines.append("| " + " | ".join(map(_markdown, names)) + " |")
        lines.append("|" + " --- |" * len(names))
        for label, rows in self.blocks:
            if label:
                lines.append("| " + " | ".join([f"**{_markdown(label)}**", *[""] * (len(names) - 1)]) + " |")
            lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
        return "\n".join([*lines, "", self.note, ""])

    def latex(self, title, footer):
        count = len(self.columns)
        lines = [f"% {title}", f"% {footer}", "% needs \\usepackage{booktabs}",
                 "\\begin{tabular}{l" + "r" * (count - 1) + "}", "\\toprule"]  # fmt: skip
        if self.heads:
            lines.append(
                " & ".join(f"\\multicolumn{{{span}}}{{c}}{{{_latex(words)}}}" for words, span in self.heads) + r" \\"
            )
            place, rules = 1, []
            for words, span in self.heads:
                if words:
                    rules.append(f"\\cmidrule(lr){{{place}-{place + span - 1}}}")
                place += span
            lines.append("".join(rules))
        lines.append(" & ".join(map(_latex, self.columns)) + r" \\")
        for label, rows in self.blocks:
            lines.append("\\midrule")
            if label:
                lines.append(f"\\multicolumn{{{count}}}{{l}}{{\\emph{{{_latex(label)}}}}}" + r" \\")
            lines += [" & ".join(map(_latex, row)) + r" \\" for row in rows]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", f"% {self.note}", ""])

    def csv(self):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return text.getvalue()


def _markdown(text):
    return text.replace("|", "\\|")


def _latex(text):
    text = re.sub(r"[–±²µ_&%#^]", lambda item: SPECIAL[item[0]], text)
    return text


# Cells picked by hand


def picked(recipe, points):
    asked = recipe_file.measured_for(recipe, points, ("n",))
    quantities = recipe["quantities"]
    count = len(recipe["columns"])
    for quantity in quantities:
        if quantity not in FORMATS:
            raise InputError(f"recipe {recipe.name}: expected one of {', '.join(FORMATS)}, found {quantity}")
    used, blocks, rows, absent = [], [], [], 0
    wanted = 0
    for block in recipe["blocks"]:
        texts = []
        for row in recipe["rows"]:
            if len(row["cells"]) != count:
                raise InputError(
                    f"recipe {recipe.name}: row {row['label']} has {len(row['cells'])} cells for {count} columns"
                )
            results = [
                _cell(recipe, asked, {**block["match"], **cell} if cell is not None else None) for cell in row["cells"]
            ]
            wanted += sum(cell is not None for cell in row["cells"])
            absent += sum(point is None for point in results if point is not NOT_APPLICABLE)
            used += [point for point in results if point not in (None, NOT_APPLICABLE)]
            text = [row["label"]]
            for quantity in quantities:
                for column, point in zip(recipe["columns"], results):
                    text.append(_text(point, quantity))
                    rows.append([block["label"], row["label"], column, quantity, *_numbers(point, quantity)])
            texts.append(text)
        blocks.append((block["label"], texts))
    if not used or 2 * absent > wanted:
        raise (Unserved if used else Unmeasured)(f"{absent} of {wanted} cells have no measurement")
    signs = [f"{NOT_APPLICABLE}: does not exist"] if any(None in row["cells"] for row in recipe["rows"]) else []
    signs += [f"{NOT_THERE}: not in the files, or not passed"] if any(_text(None, "") in row for _, texts in blocks
                                                                       for row in texts) else []  # fmt: skip
    note = ". ".join(part for part in [common_settings(used, {"n", "f"}), "; ".join(signs)] if part) + "."
    heads = [("", 1), *((HEADS.get(quantity, quantity), count) for quantity in quantities)]
    columns = ["", *(recipe["columns"] * len(quantities))]
    header = ["block", "row", "column", "quantity", "value", "low", "high", "verdict", "case"]
    return Table(heads, columns, blocks, note, header, rows, used)


def _cell(recipe, asked, match):
    if match is None:
        return NOT_APPLICABLE
    results = [point for point in asked if recipe_file.fits(point.settings, match)]
    if len(results) > 1:
        raise InputError(f"{results[1].place}: recipe {recipe.name} finds two measurements for one cell")
    return results[0] if results else None


def _text(point, quantity):
    if point is NOT_APPLICABLE:
        return NOT_APPLICABLE
    if point is None or point.row["verdict"] != "passed" or point.row[quantity] is None:
        return NOT_THERE
    return FORMATS[quantity](point.row[quantity])


def _numbers(point, quantity):
    if point in (None, NOT_APPLICABLE):
        return ["nan", "nan", "nan", "", ""]
    row = point.row
    ends = [row["seconds_low"], row["seconds_high"]] if quantity == "seconds" else [None, None]
    values = ["nan" if value is None else value for value in (row[quantity], *ends)]
    return [*values, row["verdict"], row["case"]]


# Every exponent and crossover of a summary


WITHOUT_SUMMARY = "there is no summary file, from which exponents and crossovers are taken; run `subquad summarize`"


def _curve_words(panel, label):
    return f"{label}, {panel['title']}" if panel["title"] else label


def _growth(recipes):
    """{(recipe, label): growth} of the lines whose recipe says how they grow."""
    return {(recipe.name, series["label"]): series["growth"]
            for recipe in recipes for series in recipe.get("series", []) if "growth" in series}  # fmt: skip


def exponents(summary, contents, platform, recipes=()):
    classes = {(algorithm["operator"], algorithm["implementation"]): algorithm for content in contents for algorithm in content["algorithms"]
               if algorithm["backend"] == platform[1]}  # fmt: skip
    found, rows, growth = {}, [], _growth(recipes)
    for recipe, panel in summary.on(platform):
        kind = "time" if panel["quantity"] == "seconds" else "memory"
        for curve in panel["curves"]:
            fit, theory = curve["fit"], classes.get((curve["operator"], curve["implementation"]), {})
            known = growth.get((recipe, curve["label"]), {}).get(kind) or theory.get(f"{kind}_class") or NOT_APPLICABLE
            texts = found.setdefault((recipe, _curve_words(panel, curve["label"])), {})
            texts[panel["quantity"]] = [known.replace("^2", "²"), NOT_THERE]
            if panel_notes.has_meaning(fit):
                texts[panel["quantity"]][1] = plot_style.with_interval(fit["exponent"], fit["low"], fit["high"])
            if fit:
                rows.append([recipe, panel["title"], curve["label"], curve["operator"], curve["implementation"], panel["quantity"],
                             *(fit[key] for key in ("exponent", "low", "high", "n_min", "n_max")), known])  # fmt: skip
    if not rows:
        raise Unserved(WITHOUT_SUMMARY)
    blocks = {}
    for (recipe, words), texts in found.items():
        cells = [cell for key in ("seconds", "workspace_bytes") for cell in texts.get(key, [NOT_APPLICABLE] * 2)]
        blocks.setdefault(recipe, []).append([words, *cells])
    header = [
        "recipe",
        "panel",
        "curve",
        "operator",
        "implementation",
        "quantity",
        "exponent",
        "low",
        "high",
        "n_min",
        "n_max",
        "class",
    ]
    columns = ["", "theory", "n to the", "theory", "n to the"]
    heads = [("", 1), ("time", 2), ("workspace", 2)]
    blocks = {recipe: [line for line in lines if any(cell[:1].isdigit() for cell in (line[2], line[4]))]
              for recipe, lines in blocks.items()}  # fmt: skip
    blocks = {recipe: lines for recipe, lines in blocks.items() if lines}
    note = (f"One block for each recipe, fitted to the upper part of its curves, with intervals. Not printed: exponents whose "
            f"interval is wider than {panel_notes.WIDEST_FIT:g}; the CSV file has them.")  # fmt: skip
    return Table(heads, columns, list(blocks.items()), note, header, rows, [])


WORKSPACE_NEAR, WORKSPACE_SLACK = 0.1, 65536  # a share, and bytes


def workspace_finding(contents, platform):
    """A sentence: how many workspaces are what the implementations' own formulas say."""
    result = {}
    for content in contents:
        for record in content["records"]:
            taken, formula = record["workspace_bytes"], record["workspace_formula_bytes"]
            if record["backend"] == platform[1] and record["check"]["verdict"] == "passed" and taken and formula:
                near = abs(taken - formula) <= max(WORKSPACE_NEAR * formula, WORKSPACE_SLACK)
                result.setdefault(near, []).append(f"{record['operator']}/{record['implementation']}")
    if not result:
        return ""
    count = sum(map(len, result.values()))
    within = f"workspaces of {len(result.get(True, []))} of {count} records are within {WORKSPACE_NEAR:.0%} or 64 KiB of their formulas"
    others = sorted(set(result.get(False, [])))
    return within.replace("%", " %") + (f"; others are of {', '.join(others)}" if others else "")


def crossovers(summary, platform):
    blocks, rows = {}, []
    for recipe, panel in summary.on(platform):
        for cross in panel["crossovers"]:
            quantity = {"seconds": "time", "workspace_bytes": "workspace"}[panel["quantity"]]
            where = NOT_APPLICABLE if cross["n"] is None else panel_notes.crossing_text(cross)
            words = _curve_words(panel, f"{cross['fast']} against {cross['dense']}")
            line = [words, quantity, where, cross["reason"]]
            if not (cross["reason"] or "").startswith("sizes in common") and line not in blocks.get(recipe, []):
                blocks.setdefault(recipe, []).append(line)
            numbers = ["nan" if cross[key] is None else cross[key] for key in ("n", "low", "high")]
            rows.append(
                [recipe, panel["title"], cross["fast"], cross["dense"], panel["quantity"], *numbers, cross["reason"]]
            )
    if not rows:
        raise Unserved(WITHOUT_SUMMARY)
    header = ["recipe", "panel", "fast", "dense", "quantity", "n", "low", "high", "reason"]
    columns = ["", "in", "from n", ""]
    return Table(
        [],
        columns,
        list(blocks.items()),
        "One block for each recipe. Pairs with too few sizes in common are in the CSV file alone.",
        header,
        rows,
        [],
    )


# Times with different inputs


def ratio_settings(entry):
    """{name: value} of a ratio by the names that recipes have, n among them."""
    lengths = {*entry["length_axes"], "n_q", "n_k"}
    size = {key: value for key, value in entry["size"].items() if key not in lengths}
    return {"with": "", **size, **entry["params"], **{key: entry[key] for key in ("operator", "implementation", "backend", "scalar",
                                                                     "threads", "input")}, "n": entry["tokens"]}  # fmt: skip


def _ratio_words(entry, shared, short=False):
    """Settings that distinguish this ratio in its table; short: without those that follow from others."""
    settings = ratio_settings(entry)
    if short:
        shared = {*shared, "per_head", "scale", *(["e"] if settings.get("e") == settings.get("d") else [])}
    hidden = {"operator", "implementation", "backend", "input", "n", *shared}
    return ", ".join(f"{key} = {recipe_file.text_of(value)}" for key, value in sorted(settings.items())
                     if key not in hidden and value not in (False, ""))  # fmt: skip


def _shared(entries):
    settings = [ratio_settings(entry) for entry in entries]
    return {key: value for key, value in settings[0].items()
            if key not in ("n", "input") and all(setting.get(key) == value for setting in settings)}  # fmt: skip


def input_ratios(contents, asked):
    """(Table, rows for ratio_panels, inputs) of the ratios in whole files that `asked` says yes to."""
    entries = [
        entry for content in contents for entry in content.get("input_ratios", []) if asked(ratio_settings(entry))
    ]
    if not entries:
        raise Unserved("the files have no ratios of times with different inputs")
    shared = _shared(entries)
    blocks, rows, lines = {}, [], {}
    for entry in entries:
        settings = ratio_settings(entry)
        operator = entry["operator"]
        own = _shared([other for other in entries if other["operator"] == operator])
        words, few = _ratio_words(entry, shared), _ratio_words(entry, own, short=True)
        fitted = plot_style.with_interval(entry["ratio"], entry["low"], entry["high"])
        turns = "" if entry["in_turns"] else ", one after the other"
        n = plot_style.format_count(settings["n"])
        texts = [
            entry["implementation"],
            few,
            n,
            ratio_panels.short(entry["input"]),
            fitted,
            ratio_panels.says(entry) + turns,
        ]
        blocks.setdefault(operator, []).append(texts)
        head = ", ".join(filter(None, [f"{operator} {entry['implementation']}", few, f"n = {n}"]))
        lines.setdefault(head, []).append(entry)
        ends = ["nan" if entry[key] is None else entry[key] for key in ("low", "high")]
        rows.append([operator, entry["implementation"], entry["backend"], words, settings["n"], entry["input"],
                     entry["against"], entry["ratio"], *ends, entry["in_turns"]])  # fmt: skip
    header = [
        "operator",
        "implementation",
        "backend",
        "settings",
        "n",
        "input",
        "against",
        "ratio",
        "low",
        "high",
        "in_turns",
    ]
    columns = ["", "settings", "n", "input", "ratio", ""]
    common = ", ".join(f"{key} = {recipe_file.text_of(value)}" for key, value in sorted(shared.items())
                       if key not in ("operator", "implementation", "backend") and value not in (False, ""))  # fmt: skip
    percent = round(100 * (ratio_panels.NEAR - 1))
    note = (f"{common}. Ratio: time with the input / time with normal numbers of the same shape. "
            f"Timed alternately unless stated otherwise. Simultaneous 95 % intervals, within one process; the placement of buffers "
            "in memory can matter too, so treat a difference as real only if a second run repeats it. The same: within "
            f"{percent} %.")  # fmt: skip
    inputs = sorted({entry["input"] for entry in entries})
    return Table([], columns, list(blocks.items()), note, header, rows, []), list(lines.items()), inputs


# Tables of studies


def margins(study):
    """Returns a table of the nearest wrong answer for each operator and length, and of how many wrong answers each rule accepts."""
    table = study.table("margin", "operator", "n", "rule", "margin", "nearest", "taken", "wrong_answers", "plain")
    rules = table.values("rule")
    others = [rule for rule in rules if rule != "gates"]
    blocks, rows = [], []
    for operator in table.values("operator"):
        texts = []
        for n in sorted({row["n"] for row in table.where(operator=operator)}):
            cells = {row["rule"]: row for row in table.where(operator=operator, n=n)}
            gates = cells["gates"]
            texts.append([plot_style.format_count(n), gates["nearest"], plot_style.format_plain(gates["margin"]),
                          *[f"{cells[rule]['taken']:g}" + ("*" if cells[rule]["plain"] > 1 else "") for rule in rules], f"{gates['wrong_answers']:g}"])  # fmt: skip
            rows += [[operator, n, *[cells[rule][name] for name in ("rule", "margin", "nearest", "taken", "wrong_answers", "plain")]]
                     for rule in rules]  # fmt: skip
        blocks.append((operator, texts))
    columns = ["n", "nearest wrong answer", "margin", "gates", *[rule.replace("e-0", "e-") for rule in others], "of"]
    heads = [("", 1), ("by the gates", 2), ("wrong answers accepted", len(rules) + 1)]
    note = ("Margin: error of the nearest wrong answer divided by the tolerance; below 1 it is accepted. allclose: torch.allclose with this "
            "absolute tolerance and a relative one of 1e-5. Twice bfloat16: an error may be twice that of the formula in bfloat16. *: the rule refuses the plain program in float32.")  # fmt: skip
    return Table(
        heads, columns, blocks, note, ["operator", "n", "rule", "margin", "nearest", "taken", "of", "plain"], rows, []
    )


SHOWN = 6  # mistakes in a cell


def gates(study):
    """Returns a table of what each formula accepts, by length and pass."""
    table = study.table("gates", "gate", "operator", "n", "pass", "accepted", "wrong_answers", "names", "refused")
    formulas = {row["gate"]: row for row in study.table("formulas", "gate", "formula", "source").rows}
    blocks, rows = [], []
    for gate in table.values("gate"):
        texts = []
        for n, name in sorted(
            {(row["n"], row["pass"]) for row in table.where(gate=gate)},
            key=lambda pair: (pair[1] == "backward", pair[0]),
        ):
            cells = table.where(gate=gate, n=n, **{"pass": name})
            mistakes, refused = (
                sorted({one for cell in cells for one in cell[key].split("; ") if one}) for key in ("names", "refused")
            )
            more = f" and {len(mistakes) - SHOWN} more" if len(mistakes) > SHOWN else ""
            texts.append([plot_style.format_count(n), name, f"{sum(cell['accepted'] for cell in cells):g}",
                          f"{sum(cell['wrong_answers'] for cell in cells):g}", ", ".join(mistakes[:SHOWN]) + more or "–", "; ".join(refused) or "–"])  # fmt: skip
            rows += [[gate, *[cell[key] for key in ("operator", "n", "pass", "accepted", "wrong_answers", "names", "refused")]] for cell in cells]  # fmt: skip
        known = formulas.get(gate)
        blocks.append((f"{gate}: {known['formula']} ({known['source']})" if known else gate, texts))
    note = ("x: an output in bfloat16, y: the right answer, p: a program whose every result is in bfloat16. Right programs: in float32, rounded once; "
            "with factors in bfloat16 and sums in float32; with every result in bfloat16 and sums in float32. Names are of all operators together.")  # fmt: skip
    columns = ["n", "pass", "accepted", "of", "mistakes that it accepts", "right programs that it refuses"]
    header = ["gate", "operator", "n", "pass", "accepted", "of", "names", "refused"]
    return Table([], columns, blocks, note, header, rows, [])


OF_STUDIES = {"margins": margins, "gates": gates}
