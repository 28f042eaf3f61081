#!/usr/bin/env python3
"""Writes the gallery of one machine's committed results: figures, captions, and whether they agree with the paper.

    python3 -m reports.gallery DIR [--claims FILE] [--check]

DIR contains the result and study files of one machine (reports/results/MACHINE). DIR/README.md and everything in DIR/figures
are generated from them; all text comes from recipes, claims and studies. --check writes nothing and fails if something would
change. Figures drawn by another version of matplotlib are not compared.
Exit status: 0 done, 1 --check found a difference, 2 invalid arguments or files.
"""

import argparse
import pathlib
import re
import sys

from reports import interpreter

try:
    from reports import aims
    from reports.drawing import catalogue
    from reports import figures
    from reports import page
    from reports.drawing import plot_style
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

WORST_FIRST = (
    "not reproduced",
    "wrong as printed",
    "in part",
    "not measured",
    "not attempted",
    "cannot be tested here",
    "holds by construction",
    "reproduced",
)
THUMBNAILS = 4  # in a row of the index
VERSION = re.compile(rb"<dc:title>(Matplotlib v[0-9.]+)")


def agreement(product, claims):
    """Returns (name, verdict, numbers) of the claims that the recipe names, which judge this figure."""
    known = {claim["id"]: claim for claim in claims or []}
    results = [known[name] for name in product.recipe.get("claims", []) if name in known and not product.about]
    return [(claim["id"], claim["verdict"], claim["numbers"]) for claim in results]


def badge(product, claims):
    """Returns the worst verdict of the recipe's claims, `not judged` for a paper's figure without a claim, or nothing."""
    result = {verdict for _, verdict, _ in agreement(product, claims)}
    unnamed = "" if product.recipe["source"] == "this project" else "not judged"
    return next((verdict for verdict in WORST_FIRST if verdict in result), unnamed)


def paper_of(product):
    return re.split(r"[,(]", product.recipe["source"])[0].strip()


def made_by(sources):
    """Returns a row for each commit from which results come."""
    files = {}
    for path, content in sources:
        environment = content["environment"]
        key = f"`{catalogue.commit(environment)}` | {catalogue.compiler(environment)} | {content['created'][:10]}"
        name = pathlib.Path(path).name
        files.setdefault(key, []).append(f"[{name}]({name})")
    rows = [f"| {key} | {', '.join(names)} |" for key, names in files.items()]
    return ["| measured at commit | compiler | date | files |", "| --- | --- | --- | --- |", *rows]


def thumbnails(products, claims):
    cells = []
    for product in products:
        words = badge(product, claims)
        label = f"{product.title}" + (f": **{words}**" if words else "")
        cells.append(
            f'<a href="#{product.name}"><img src="figures/{product.name}.svg" width="200" alt=""></a><br>{label}'
        )
    cells += [""] * (-len(cells) % THUMBNAILS)
    rows = [cells[start : start + THUMBNAILS] for start in range(0, len(cells), THUMBNAILS)]
    return ["|" + " |" * THUMBNAILS, "|" + " --- |" * THUMBNAILS, *("| " + " | ".join(row) + " |" for row in rows)]


def entry(product, claims, page):
    recipe = product.recipe
    shows = "Question" if recipe["source"] == "this project" else "The paper"
    lines = [f'### <a id="{product.name}"></a>{product.title}', "", f"Source: {recipe['source']}."]
    lines += ["", f"- **{shows}**: {recipe['shows']}", f"- **Shown here**: {recipe['here']}"]
    lines += [f"- `{name}`: **{verdict}**. {' '.join(numbers.split())}"
              for name, verdict, numbers in agreement(product, claims)]  # fmt: skip
    if product.missing:
        lines.append(f"- Not in these results: {'; '.join(product.missing)}.")
    words = product.caption(page)
    more = [words.plain()[1], *words.numbers, words.provenance]
    folded = [
        "<details><summary>Caption, numbers and origin</summary>",
        "",
        *(f"{item}\n" for item in more if item),
        "</details>",
    ]
    return [*lines, "", f"![{product.title}](figures/{product.name}.svg)", "", *folded, ""]


# Figures of reports.aims: their names, and the table that has every case.
SPEED = (("peers", "peers"), ("untuned", "peers"), ("targets", "peers"), ("threads", "threads"))


def speed_part(folder):
    """Returns the section with the figures that `reports.aims` wrote beside the results."""
    shown = [(name, table) for name, table in SPEED if (folder / "speed" / f"{name}-figure.svg").exists()]
    lines = ["## Beside other libraries, and on two threads", ""] if shown else []
    for name, table in shown:
        title = aims.FIGURES[name]
        words = (folder / "speed" / f"{name}-figure.caption.md").read_text(encoding="utf-8").rstrip()
        lines += [f"### {title}", "", f"Every case: [speed/{table}.md](speed/{table}.md).", "",
                  f"![{title}](speed/{name}-figure.svg)", "", "<details><summary>Caption and origin</summary>", "", words, "",
                  "</details>", ""]  # fmt: skip
    return lines


def build(made, sources, claims, folder):
    """Returns {path: bytes} of the gallery's text, figures and tables."""
    shown = [product for product in made.products if product.recipe is not None]
    drawn = [product for product in shown if product.draw]
    tables = [product for product in shown if product.table]
    backends = {record["backend"] for _, content in sources for record in content.get("records", [])}
    machine = result_file.machine_name("cuda" if backends == {"cuda"} else "cpu", sources[0][1]["environment"])
    lines = [f"# Results: {folder.name}", "",
             f"Measured on {machine}. `python3 -m reports.gallery {place(folder)}` generates this page from the files beside it; "
             "nothing is typed by hand.", "", *made_by(sources), ""]  # fmt: skip
    if claims:
        lines += [
            "The verdict on every claim is in [claims.md](claims/claims.md). The word beside a figure is the verdict of the claims "
            "that are tested with its data; a paper's figure without such a claim is **not judged**.",
            "",
        ]
    reports = sorted((folder / "papers").glob("*.pdf"))
    if reports:
        links = ", ".join(f"[{path.stem}](papers/{path.name})" for path in reports)
        lines += [f"Reports on single papers, as PDF (`python3 -m reports.reproduce`): {links}.", ""]
    lines += ["## Index", "", *thumbnails(drawn, claims), ""]
    if tables:
        lines += [
            "Tables: "
            + "; ".join(
                f"[{product.title}](figures/{product.name}.md)" + (f" ({product.finding})" if product.finding else "")
                for product in tables
            )
            + ".",
            "",
        ]
    paper, written = None, {}
    for product in drawn:
        if paper_of(product) != paper:
            paper = paper_of(product)
            lines += [f"## {paper[:1].upper() + paper[1:]}", ""]
        page = product.draw()
        written[folder / "figures" / f"{product.name}.svg"] = plot_style.render(page.figure, "svg")
        lines += entry(product, claims, page)
    lines += speed_part(folder)
    # A new recipe is listed only after it has been measured.
    left = [f"`{recipe.name}` ({why})" for recipe, why in made.unserved if recipe not in made.unmeasured]
    if left:
        lines += [f"Not drawn from these results: {'; '.join(left)}.", ""]
    written[folder / "README.md"] = ("\n".join(lines).rstrip() + "\n").encode()
    for product in tables:
        written[folder / "figures" / f"{product.name}.md"] = product.files([])[f"{product.name}.md"]
    return written


def place(folder):
    """Returns the folder for the printed command: relative to the repository if it is inside."""
    root = pathlib.Path(__file__).resolve().parent.parent
    resolved = folder.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else folder.as_posix()


def differs(path, content, any_version):
    """Tells whether the file differs from what would be written. With `any_version`, a figure that another version of Matplotlib
    has drawn counts as equal, since it differs in every number."""
    if not path.exists():
        return True
    result = path.read_bytes()
    drawn = [VERSION.search(entry) for entry in (result, content)]
    if any_version and path.suffix == ".svg" and all(drawn) and drawn[0][1] != drawn[1][1]:
        return False
    return result != content


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="gallery.py",
        description="Writes DIR/README.md and DIR/figures from the result and study files in DIR.",
        epilog="Exit status: 0 done, 1 --check found a difference, 2 invalid arguments or files.",
    )
    parser.add_argument(
        "folder", metavar="DIR", type=pathlib.Path, help="folder of one machine's result and study files"
    )
    parser.add_argument(
        "--claims",
        metavar="FILE",
        help="claims.json, the output of `subquad claims` (default: DIR/claims/claims.json, if it exists)",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if a file would change")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        claims_path = options.claims or options.folder / "claims" / "claims.json"
        claims = page.load_claims(claims_path) if options.claims or pathlib.Path(claims_path).exists() else None
        paths = sorted(options.folder.glob("*.json"))
        if not paths:
            raise InputError(f"{options.folder}: expected a folder with result files, found no .json file in it")
        results, studies, summary = figures.load_files(paths)
        made = catalogue.build(results, studies, recipe_file.load_all(), "none", summary)
        plot_style.use_style(plot_style.load_look(bare=True))
        sources = sorted(
            [*results, *((study.path, study.content) for study in studies)], key=lambda source: str(source[0])
        )
        written = build(made, sources, claims, options.folder)
        changed = [path for path, content in written.items() if differs(path, content, options.check)]
        stale = sorted(path for path in (options.folder / "figures").glob("*") if path not in written)
        for path in changed:
            if options.check:
                print(f"would change: {path}")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written[path])
        for path in stale:
            if options.check:
                print(f"would be removed: {path}")
            else:
                path.unlink()
        count = len(changed) + len(stale)
        files = "1 file" if count == 1 else f"{count} files"
        print(
            f"{len(written) - 1} figures and tables: {files} {'would change' if options.check else 'written or removed'}"
        )
        return 1 if options.check and count else 0
    except InputError as error:
        print(f"gallery.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gallery.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
