#!/usr/bin/env python3
"""Writes one self-contained page of a run: summary, environment, claims, all figures and tables, all points.

    python3 -m reports.page FILE... --out DIR [--claims FILE] [--title WORDS]

FILEs are result and study files; DIR/index.html needs no network and opens from disk.
Exit status: 0 written, 2 invalid arguments or files (nothing is written then).
"""

import argparse
import collections
import html
import pathlib
import re
import shlex
import sys

from reports import interpreter

try:
    from reports.drawing import catalogue
    from reports import figures
    from reports.drawing import plot_style
    from reports.drawing import recipe_figure
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

TEMPLATE = pathlib.Path(__file__).with_name("page.html")
GOOD = {
    "passed": "good",
    "reproduced": "good",
    "holds by construction": "good",
    "in part": "mid",
    "wrong as printed": "mid",
    "skipped": "soft",
    "not measured": "soft",
    "not attempted": "soft",
    "cannot be tested": "soft",
}


def escape(value):
    return html.escape(str(value), quote=True)


def load_claims(path):
    """Returns the rows of a file that `subquad claims` wrote."""
    content = result_file._parse(path)
    if not isinstance(content, dict) or content.get("format") != "claims/1":
        raise InputError(
            f'{path}: expected output of `subquad claims` (format "claims/1"), found {result_file.format_words(content)}'
        )
    if not isinstance(content.get("claims"), list):
        raise InputError(f'{path}: expected a field "claims" with a list, found none')
    for index, claim in enumerate(content["claims"]):
        for key in ("id", "says", "source", "verdict", "numbers"):
            if not isinstance(claim, dict) or not isinstance(claim.get(key), str):
                raise InputError(f'{path}: claims[{index}]: expected a field "{key}" with text, found none')
    return content["claims"]


def classed(verdict):
    kind = next((kind for word, kind in GOOD.items() if verdict.startswith(word)), "bad")
    return f'<span class="{kind}">{escape(verdict)}</span>'


# Parts of the page


def summary(results, studies, made, claims):
    records = [record for _, content in results for record in content["records"]]
    verdicts = collections.Counter(record["check"]["verdict"] for record in records)
    drawn = {product.recipe.name for product in made.products if product.recipe}
    tiles = [(len(records), "points")] + [
        (verdicts[word], word) for word in ("passed", "failed", "mistrusted", "skipped")
    ]
    tiles += [(len({record["operator"] for record in records}), "operators")]
    tiles += [(f"{len(drawn)}/{len(drawn) + len(made.unserved)}", "recipes drawn"), (len(studies), "studies")]
    if claims:
        counts = collections.Counter(claim["verdict"] for claim in claims)
        tiles += [(counts[word], f"claims {word}") for word in sorted(counts)]
    parts = [
        '<div class="tiles">',
        *(f'<div class="tile"><b>{number}</b>{escape(words)}</div>' for number, words in tiles),
        "</div>",
    ]
    bad = [record for record in records if record["check"]["verdict"] in ("failed", "mistrusted")]
    if bad:
        parts.append(f"<p>Failed or mistrusted ({len(bad)}):</p><ul>")
        for record in bad[:12]:
            parts.append(f'<li><code>{escape(record["implementation"])} {escape(record["case"])}</code>: '
                         f'{classed(record["check"]["verdict"])}, {escape(record["check"]["reason"])}</li>')  # fmt: skip
        parts.append(f"<li>{len(bad) - 12} more in the table of points</li></ul>" if len(bad) > 12 else "</ul>")
    return "\n".join(parts)


RUN_SETTINGS = ("threads", "measured")  # what differs between the files of one machine and build
GPU_RUN_SETTINGS = ("processor_mhz", "memory_mhz", "throttled", "copy_bytes_per_second")  # the same of a GPU


def environment(results, studies):
    """Lists each machine and build once, with its files."""
    sources = [(path, content) for path, content in results] + [(study.path, study.content) for study in studies]
    seen = {}
    for path, content in sources:
        common = {key: value for key, value in content["environment"].items() if key not in RUN_SETTINGS}
        common["gpu"] = {
            key: value for key, value in (common["gpu"] or {}).items() if key not in GPU_RUN_SETTINGS
        } or None
        key = repr(sorted(common.items(), key=lambda item: item[0]))
        seen.setdefault(key, (common, []))[1].append((path, content))
    parts = []
    for common, owners in seen.values():
        rows = [("commit", catalogue.commit(common))]
        rows += [(key.replace("_", " "), _words(key, value)) for key, value in common.items()
                 if key not in ("commit", "dirty") and value is not None]  # fmt: skip
        cells = "".join(f"<tr><th>{escape(key)}</th><td class='mono'>{escape(value)}</td></tr>" for key, value in rows)
        parts.append(f'<div class="scroll"><table class="env">{cells}</table></div>')
        heads = "".join(f"<th>{word}</th>" for word in ("file", "created", "command", *RUN_SETTINGS))
        files = "".join(_file_row(path, content) for path, content in owners)
        parts.append(
            f'<div class="scroll"><table class="files"><thead><tr>{heads}</tr></thead><tbody>{files}</tbody></table></div>'
        )
    return "\n".join(parts)


def _file_row(path, content):
    settings = content["environment"]
    words = [_words(key, settings[key]) if settings.get(key) is not None else "" for key in RUN_SETTINGS]
    gpu = {key: value for key, value in (settings["gpu"] or {}).items() if key in GPU_RUN_SETTINGS}
    if gpu:
        words[-1] += f"; GPU: {_words('gpu', gpu)}"
    cells = [pathlib.Path(path).name, content["created"], content["command"], *words]
    return "<tr>" + "".join(f"<td class='mono'>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _words(key, value):
    if key == "memory_bytes":
        return plot_style.format_bytes(value)
    if key == "measured":
        flops = ", ".join(f"{name} {rate:.3g} flop/s" for name, rate in value["fma_flops_per_second"].items() if rate)
        rates = [f"{key.replace('_bytes_per_second', '').replace('_', ' ')} {value[key]:.3g} B/s"
                 for key in ("copy_bytes_per_second", "cached_copy_bytes_per_second") if value.get(key)]  # fmt: skip
        return ", ".join([*rates, flops])
    if key == "gpu":
        return ", ".join(filter(None, (_gpu_words(name, item) for name, item in value.items() if item)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items() if item is not None)
    return str(value)


def _gpu_words(name, value):
    if name == "name":
        return value
    if name == "emulated":
        return name
    for ending, unit in (("_flops_per_second", "flop/s"), ("_bytes_per_second", "B/s"), ("_mhz", "MHz")):
        if name.endswith(ending):
            number = value if unit == "MHz" else f"{value:.3g}"
            return f"{name.removesuffix(ending).replace('_', ' ')} {number} {unit}"
    if name.endswith("_bytes"):
        return f"{name.removesuffix('_bytes')} {plot_style.format_bytes(value)}"
    return f"{name} {value}"


def claims_table(claims):
    rows = "".join(
        f'<tr id="claim-{escape(claim["id"])}"><td class="mono">{escape(claim["id"])}</td><td>{escape(claim["says"])}</td>'
        f'<td>{escape(claim["source"])}</td><td>{classed(claim["verdict"])}</td><td>{escape(claim["numbers"])}</td></tr>'
        for claim in claims
    )
    heads = "".join(f"<th>{word}</th>" for word in ("claim", "says", "source", "verdict", "numbers"))
    return f'<div class="scroll"><table class="wide"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def thumbnail(product, page):
    """Returns a small picture that links to the figure and reuses its drawing."""
    small = ""
    if page:
        box = f"0 0 {72 * page.width:.6g} {72 * page.height:.6g}"
        small = f'<svg viewBox="{box}" aria-hidden="true"><use href="#{_svg_id(product)}"/></svg>'
    return f'<li><a href="#{escape(product.name)}">{small}<span>{escape(product.title)}</span></a></li>'


def _svg_id(product):
    return "drawing-" + re.sub(r"[^A-Za-z0-9]", "_", product.name)


def product_part(product, claims, page):
    parts = [f'<h3 id="{escape(product.name)}">{escape(product.title)}</h3>']
    if product.recipe:
        recipe = product.recipe
        facts = [
            ("source", escape(recipe["source"])),
            ("shows", escape(recipe["shows"])),
            ("here", escape(recipe["here"])),
        ]
        known = {claim["id"]: claim for claim in claims or []}
        for name in recipe.get("claims", []):
            if name in known:
                claim = known[name]
                facts.append(("claim", f'<a href="#claim-{escape(name)}">{escape(name)}</a>: {classed(claim["verdict"])}. '
                              f'{escape(claim["numbers"])}'))  # fmt: skip
        if product.missing:
            facts.append(("missing", escape(", ".join(product.missing))))
        parts.append(
            '<dl class="facts">' + "".join(f"<dt>{key}</dt><dd>{value}</dd>" for key, value in facts) + "</dl>"
        )
    if page:
        kind = "column" if page.width < NARROW else "page"
        words = product.caption(page)
        more = "".join(f"<p>{escape(entry)}</p>" for entry in [*words.numbers, words.provenance])
        parts.append(
            f'<figure class="{kind}"><div class="scroll">{inline_svg(product, page)}</div>'
            f"<figcaption>{escape(words.plain()[1])}<details><summary>numbers and origin</summary>{more}</details></figcaption>"
            "</figure>"
        )
    if product.table:
        parts.append(table_html(product.table))
        parts.append(f'<p class="soft">{escape(product.table.note)} {escape(product.footer)}</p>')
    return "\n".join(parts)


def inline_svg(product, page):
    """Returns the figure as an SVG element with unique ids and a title for screen readers."""
    text = plot_style.render(page.figure, "svg").decode()
    text = text[text.index("<svg") :]
    prefix = re.sub(r"[^A-Za-z0-9]", "_", product.name) + "-"
    text = re.sub(r'(<image [^>]*?) ?\bid="[^"]+"', r"\1", text, flags=re.DOTALL)  # the same picture twice has one id
    text = re.sub(r'\bid="([^"]+)"', lambda item: f'id="{prefix}{item[1]}"', text)
    text = re.sub(r"url\(#([^)]+)\)", lambda entry: f"url(#{prefix}{entry[1]})", text)
    text = re.sub(r'href="#([^"]+)"', lambda element: f'href="#{prefix}{element[1]}"', text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} id="{_svg_id(product)}" role="img" aria-label="{escape(product.title)}">{rest}'


def table_html(table):
    parts = ['<div class="scroll"><table><thead>']
    if table.heads:
        parts.append(
            "<tr>" + "".join(f'<th colspan="{span}">{escape(words)}</th>' for words, span in table.heads) + "</tr>"
        )
    parts.append("<tr>" + "".join(f"<th>{escape(column)}</th>" for column in table.columns) + "</tr></thead><tbody>")
    for label, rows in table.blocks:
        if label:
            parts.append(f'<tr class="block"><td colspan="{len(table.columns)}">{escape(label)}</td></tr>')
        parts += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "".join([*parts, "</tbody></table></div>"])


NARROW = 4.5  # inches: a figure for one column
COLUMNS = (  # (head, is a number)
    ("operator", False), ("implementation", False), ("n", True), ("settings", False), ("verdict", False),
    ("time", True), ("workspace", True), ("error / bound", True), ("repeat", False),
)  # fmt: skip


def records_part(results):
    points = recipe_file.points_of(results)
    operators = sorted({point.settings["operator"] for point in points})
    verdicts = sorted({point.row["verdict"] for point in points})

    def options(words):
        return "".join(f"<option>{escape(word)}</option>" for word in words)

    tools = (
        '<div class="tools"><input type="search" data-filter="any" placeholder="filter by words" '
        'aria-label="filter by words">'
        f'<select data-filter="0" aria-label="operator"><option value="">every operator</option>{options(operators)}</select>'
        f'<select data-filter="4" aria-label="verdict"><option value="">every verdict</option>{options(verdicts)}</select>'
        '<span id="count" class="soft"></span></div>'
    )
    heads = "".join(
        f'<th class="{"number" if number else ""}">{f"<button>{word}</button>" if word != "repeat" else word}</th>'
        for word, number in COLUMNS
    )
    rows = "\n".join(_record_row(point) for point in points)
    return (
        "<p>All points of the files, including those that failed or did not run. <b>repeat</b> copies the command that "
        "checks the point again.</p>"
        + tools
        + f'<div class="scroll"><table id="records"><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n'
        '</tbody></table></div><p><button id="more" hidden></button></p>'
    )


def _record_row(point):
    settings, row = point.settings, point.row
    words = recipe_figure.common_settings([point], {"n", "height", "width", "aspect"})
    command = f"build/subquad verify --implementation {row['implementation']} --backend {settings['backend']} "
    command += f"--case {shlex.quote(row['case'])}"
    time = ""
    if row["seconds"]:
        time = plot_style.format_seconds(row["seconds"])
        if row["seconds_low"] and row["seconds_high"]:
            spread = (row["seconds_high"] - row["seconds_low"]) / 2 / row["seconds"]
            percent = f"{100 * spread:.0f}" if spread >= 0.095 else f"{100 * spread:.1f}"
            time += f' <span class="soft">±{percent} %</span>'
    words = escape(words).replace(" = ", "&nbsp;=&nbsp;")
    if row["reason"]:
        words += f'<br><span class="soft">{escape(row["reason"])}</span>'
    cells = [
        ("", "", escape(settings["operator"])),
        ("", "", escape(row["implementation"])),
        ("number", settings["n"], plot_style.format_count(settings["n"])),
        ("what", "", words),
        ("", "", classed(row["verdict"])),
        ("number", _value(row["seconds"]), time),
        ("number", _value(row["workspace_bytes"]), "" if row["workspace_bytes"] is None else plot_style.format_bytes(row["workspace_bytes"])),
        ("number", _value(row["error"]), "" if row["error"] is None else plot_style.format_plain(row["error"])),
    ]  # fmt: skip
    texts = "".join(
        f'<td{f" class={kind}" if kind else ""}{f" data-value={chr(34)}{value}{chr(34)}" if kind == "number" else ""}>{text}</td>'
        for kind, value, text in cells
    )
    # Without JavaScript there is no copy button, and page.html shows the command instead.
    repeat = f'<td data-command="{escape(command)}"><button class="copy">copy</button></td>'
    return f"<tr>{texts}{repeat}</tr>"


def _value(number):
    return "" if number is None else number


def build(results, studies, made, claims, title):
    """Returns the whole page as text."""
    parts = [
        ("summary", "Summary", summary(results, studies, made, claims)),
        ("environment", "Environment", environment(results, studies)),
    ]
    if claims:
        parts.append(("claims", "Claims", claims_table(claims)))
    pages = [product.draw() if product.draw else None for product in made.products]
    shown = "".join(thumbnail(product, page) for product, page in zip(made.products, pages))
    drawn = [f'<ul class="index">{shown}</ul>',
             *(product_part(product, claims, page) for product, page in zip(made.products, pages))]  # fmt: skip
    parts.append(("figures", "Figures and tables", "\n".join(drawn)))
    if made.unserved:
        rows = "".join(f'<tr><td class="mono">{escape(recipe.name)}</td><td>{escape(recipe["title"])}</td><td>{escape(why)}</td></tr>'
                       for recipe, why in made.unserved)  # fmt: skip
        parts.append(("missing", "Not drawn", f'<div class="scroll"><table><thead><tr><th>recipe</th><th>title</th><th>why</th></tr>'
                      f"</thead><tbody>{rows}</tbody></table></div>"))  # fmt: skip
    if results:
        parts.append(("points", "Points", records_part(results)))
    machines = dict.fromkeys(
        result_file.machine_name("cpu", content["environment"])
        for content in [*(c for _, c in results), *(s.content for s in studies)]
    )
    dates = sorted({content["created"][:10] for content in [*(c for _, c in results), *(s.content for s in studies)]})
    fill = {
        "TITLE": escape(title),
        "SUBTITLE": escape(f"{', '.join(machines)}; {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}"),
        "NAV": "".join(f'<a href="#{name}">{words}</a>' for name, words, _ in parts),
        "BODY": "\n".join(f'<section><h2 id="{name}">{words}</h2>\n{text}</section>' for name, words, text in parts),
    }
    return re.sub("@(TITLE|SUBTITLE|NAV|BODY)@", lambda item: fill[item[1]], TEMPLATE.read_text(encoding="utf-8"))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="page.py",
        description="Writes DIR/index.html, a page with a summary, the environment, claims, all figures and tables, and a "
        "table of all points that can be sorted and filtered. The page loads nothing from the network.",
        epilog="Exit status: 0 page written, 2 invalid arguments or files (nothing is written then).",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="result, study and summary files, or folders of them")
    parser.add_argument("--out", metavar="DIR", required=True, type=pathlib.Path, help="folder to write to")
    parser.add_argument("--claims", metavar="FILE", help="claims.json, the output of `subquad claims`")
    parser.add_argument("--title", default="subquad: a run", help="heading (default: %(default)s)")
    parser.add_argument(
        "--recipes",
        metavar="DIR",
        type=pathlib.Path,
        default=recipe_file.FOLDER,
        help="folder of recipes (default: reports/recipes)",
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        results, studies, summary = figures.load_files(options.files)
        claims = load_claims(options.claims) if options.claims else None
        recipes = recipe_file.load_all(options.recipes)
        made = catalogue.build(results, studies, recipes, summary=summary)
        plot_style.use_style(plot_style.load_look(bare=True))
        text = build(results, studies, made, claims, options.title)
        result_file.make_folder(options.out)
        (options.out / "index.html").write_text(text, encoding="utf-8")
        print(options.out / "index.html")
    except InputError as error:
        print(f"page.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"page.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
