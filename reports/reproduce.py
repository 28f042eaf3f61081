#!/usr/bin/env python3
"""Writes one PDF with everything that can be reproduced of a paper (figures, tables and claims), and what cannot.

    python3 -m reports.reproduce PAPER.. --files FILE.. [--claims FILE] --out DIR     # DIR/PAPER.pdf
    python3 -m reports.reproduce PAPER --sweeps                                       # what it needs, for `subquad sweep --config`

PAPER is fastrpb, nprf, lrpe, transformer-xl, survey, or all. Everything comes from the recipes of the paper, the files and
the claims (`subquad claims`); nothing is typed in. The pages are drawn with matplotlib, which the figures need anyway, so that a
report is the same with and without LaTeX on the machine.
Exit status: 0 written, 2 invalid arguments or files (nothing is written then).
"""

import argparse
import io
import json
import pathlib
import re
import sys

from reports import interpreter

try:
    from matplotlib.backends.backend_pdf import PdfPages

    from reports import figures
    from reports import page as web_page
    from reports.drawing import catalogue
    from reports.drawing import plot_style
    from reports.drawing.document import Document
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

# The beginnings of sources, in recipes and in claims.
PAPERS = {
    "fastrpb": "FastRPB",
    "nprf": "NPRF",
    "lrpe": "LRPE",
    "transformer-xl": "Transformer-XL",
    "survey": "Transformers II",
}
WORDS = (("prop.", "proposition"), ("fig.", "figure"), ("eq.", "equation"), ("equations", "equation"), ("figures", "figure"),
         ("sec.", "section"))  # fmt: skip
LACKING, OPEN, LAST = "Not measured", "Not attempted", "Not possible here"
# The chapters of claims with these verdicts.
UNANSWERED = {"not measured": LACKING, "not attempted": OPEN, "cannot be tested here": LAST}
ORDER = (
    "section",
    "equation",
    "lemma",
    "proposition",
    "theorem",
    "algorithm",
    "footnote",
    "appendix",
    "figure",
    "table",
)


def place_of(source, name):
    """Returns the place in the paper: `figure 3a` for `FastRPB, fig. 3a`."""
    place = source.removeprefix(name).lstrip(", ").partition(";")[0]
    for short, word in WORDS:
        place = re.sub(rf"(?<![a-z]){re.escape(short)}", word, place)
    return re.sub(r"\s*\(.*\)", "", place).strip() or "the whole paper"


def by_place(place):
    """Statements first, then figures and tables, each in the order of their numbers."""
    rank = next((rank for rank, word in enumerate(ORDER) if place.startswith(word)), len(ORDER))
    return rank, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", place)]


def parts_of(name, products, claims):
    """[(place, products, claims)]: a claim that a figure names is listed with that figure only."""
    parts, taken = {}, set()
    known = {claim["id"]: claim for claim in claims}
    for product in products:
        place = place_of(product.recipe["source"], name)
        shown, told = parts.setdefault(place, ([], []))
        shown.append(product)
        for entry in product.recipe.get("claims", []):
            if entry in known and entry not in taken and not product.about:
                taken.add(entry)
                told.append(known[entry])
    for claim in claims:
        if claim["id"] not in taken and claim["verdict"] not in UNANSWERED:
            parts.setdefault(place_of(claim["source"], name), ([], []))[1].append(claim)
    return [(place, *parts[place]) for place in sorted(parts, key=by_place)]


def _capital(words):
    return words[:1].upper() + words[1:]


def of_paper(source, name):
    return re.match(rf"{re.escape(name)}(?![\w-])", source) is not None


def write_report(paper, made, sources, claims, numbers):
    """(Document, {place: page}) for a table of contents with these pages."""
    name = PAPERS[paper]
    products = [product for product in made.products if product.recipe and of_paper(product.recipe["source"], name)]
    own = [claim for claim in claims if of_paper(claim["source"], name)]
    unserved = [(recipe, why) for recipe, why in made.unserved if of_paper(recipe["source"], name)]
    if not products and not own:
        raise InputError(f"{paper}: expected files with data for one of its recipes or claims, found none")
    document = Document(f"Reproduction of {name}")
    document.title(f"Reproduction of {name}")
    machines = dict.fromkeys(result_file.machine_name("cpu", content["environment"]) for _, content in sources)
    dates = sorted(content["created"][:10] for _, content in sources)
    days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    commits = dict.fromkeys(catalogue.commit(content["environment"]) for _, content in sources)
    document.paragraph(f"Measured on {', '.join(machines)}, {days}, at commit {', '.join(commits)}. One layer of "
                       "attention at a time, not whole models; each part says what the paper shows and what is shown here.")  # fmt: skip
    counts = {}
    for claim in own:
        counts[claim["verdict"]] = counts.get(claim["verdict"], 0) + 1
    if counts:
        words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        document.paragraph(f"{len(own)} claims: {words}.")
    parts = parts_of(name, products, own)
    endings = {
        ending: [claim for claim in own if claim["verdict"] == verdict] for verdict, ending in UNANSWERED.items()
    }
    kept = {ending: own for ending, own in endings.items() if own or (ending == LACKING and unserved)}
    endings = kept or {LAST: []}
    document.heading("Contents")
    for place in [*(place for place, _, _ in parts), *endings]:
        document.entry(_capital(place), numbers.get(place, ""))
    if own:
        document.heading("Claims")
        document.table(["claim", "in the paper", "says", "verdict"],
                       [[claim["id"], place_of(claim["source"], name), claim["says"], claim["verdict"]] for claim in own])  # fmt: skip
    result = {}
    for place, shown, told in parts:
        if shown and shown[0].draw:
            document.keep_together(shown[0])
        document.heading(_capital(place))
        result[place] = document.number
        for product in shown:
            recipe = product.recipe
            if not product.about:
                document.paragraph(f"The paper: {recipe['shows']}")
                document.paragraph(f"Shown here: {recipe['here']}")
            if product.missing:
                document.paragraph(f"Not in these files: {'; '.join(product.missing)}.")
            if product.draw:
                document.figure(product)
            if product.table:
                document.product_table(product)
        for claim in told:
            document.claim(claim)
    for ending, missing in endings.items():
        document.heading(ending)
        result[ending] = document.number
        for claim in missing:
            document.paragraph(
                f"{claim['id']} ({place_of(claim['source'], name)}): {claim['says']}. {claim['numbers']}"
            )
        if ending == LACKING:
            for recipe, why in unserved:
                document.paragraph(f"{recipe['title']} ({place_of(recipe['source'], name)}): {why}.")
    if endings == {LAST: []}:
        document.paragraph("The files contain everything that the recipes and claims of this paper need. Statements without a claim "
                           "(for example on trained models) are not tested.")  # fmt: skip
    return document, result


def render(paper, made, sources, claims):
    """The bytes of the PDF. Written twice, so that the contents know their pages."""
    _, found = write_report(paper, made, sources, claims, {})
    document, _ = write_report(paper, made, sources, claims, found)
    buffer = io.BytesIO()
    metadata = {"Title": document.words, "CreationDate": None, "ModDate": None}
    with PdfPages(buffer, metadata=metadata) as pages:
        for sheet in document.finish():
            pages.savefig(sheet)
    return buffer.getvalue()


def sweeps_of(paper, recipes):
    """A configuration of every sweep that the paper's recipes name, each once."""
    results = [
        sweep for recipe in recipes if of_paper(recipe["source"], PAPERS[paper]) for sweep in recipe.get("sweeps", [])
    ]
    unique = list({json.dumps(sweep, sort_keys=True): sweep for sweep in results}.values())
    return {"sweeps": unique}


def studies_of(paper, recipes):
    return list(dict.fromkeys(recipe["study"] for recipe in recipes
                              if of_paper(recipe["source"], PAPERS[paper]) and recipe.get("study")))  # fmt: skip


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="reproduce.py",
        description="Writes DIR/PAPER.pdf with the figures, tables and claims of a paper, part by part, and a list of what was "
        "not measured or cannot be reproduced.",
        epilog="Exit status: 0 reports written, 2 invalid arguments or files (nothing is written then).",
    )
    parser.add_argument(
        "papers",
        metavar="PAPER",
        nargs="+",
        choices=[*PAPERS, "all"],
        help=f"papers to report on: {', '.join(PAPERS)}, or all",
    )
    parser.add_argument(
        "--files", metavar="FILE", nargs="+", default=[], help="result, study and summary files, or folders of them"
    )
    parser.add_argument("--claims", metavar="FILE", help="claims.json, the output of `subquad claims`")
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, help="folder to write to")
    parser.add_argument(
        "--sweeps",
        action="store_true",
        help="only print the sweeps that the paper needs, as JSON for `subquad sweep --config`",
    )
    parser.add_argument(
        "--studies", action="store_true", help="only print the names of the studies that the paper needs"
    )
    options = parser.parse_args(arguments)
    if not options.sweeps and not options.studies and (not options.files or options.out is None):
        parser.error("expected both --files FILE.. and --out DIR, or one of --sweeps and --studies")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    papers = list(PAPERS) if "all" in options.papers else list(dict.fromkeys(options.papers))
    try:
        recipes = recipe_file.load_all()
        if options.sweeps or options.studies:
            for paper in papers:
                if options.studies:
                    print("\n".join(studies_of(paper, recipes)))
                else:
                    print(json.dumps(sweeps_of(paper, recipes), indent=1))
            return 0
        results, studies, summary = figures.load_files(options.files)
        claims = web_page.load_claims(options.claims) if options.claims else []
        made = catalogue.build(results, studies, recipes, "none", summary)
        sources = [*results, *((study.path, study.content) for study in studies)]
        plot_style.use_style(plot_style.load_look(bare=True))
        written = {options.out / f"{paper}.pdf": render(paper, made, sources, claims) for paper in papers}
        result_file.make_folder(options.out)
        for path, content in written.items():
            path.write_bytes(content)
            print(path)
    except InputError as error:
        print(f"reproduce.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"reproduce.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
