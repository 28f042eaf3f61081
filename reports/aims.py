#!/usr/bin/env python3
"""Writes tables and figures of comparisons: aims, ratios to other libraries, and speed-ups of two threads.

    python3 -m reports.aims FILE... --out DIR [--beside FILE...] [--aims FILE] [--subquad PROGRAM]

FILE is the output of `reports.peers` or of `subquad sweep --preset threads`; all files must come from one machine. The tables
aims, peers and threads are written as Markdown, LaTeX (booktabs) and CSV, with figures of them, if the files have the data.
Nothing is measured here: whether an aim is met, missed or not measured follows from the numbers.
Exit status: 0 tables written, 2 invalid arguments or files (nothing is written then).
"""

import argparse
import dataclasses
import functools
import math
import pathlib
import sys

from reports import interpreter

try:
    from reports.files import aims_file
    from reports.drawing import catalogue
    from reports.peer import intervals
    from reports.peer import programs
    from reports import figures
    from reports.drawing import plot_style
    from reports.drawing import speed_figures
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.drawing import tables
    from reports.files.result_file import InputError
except ImportError as error:
    interpreter.instead(__name__, error)

AT_LEAST = ("ratio", "peak", "copy", "trips", "threads")  # other kinds: at most
MEMORY = "does not fit in memory"


@dataclasses.dataclass
class Value:
    """One number of an aim: at one case, or over all of them."""

    value: float
    low: float | None
    high: float | None
    who: str  # our implementation, and the program it is compared with
    where: str  # the case, in words

    def text(self):
        return plot_style.with_interval(self.value, self.low, self.high)


class Measured:
    """All results of the files, by case."""

    def __init__(self, files, program="build/subquad"):
        self.program = program
        # A file with ratios comes first: its times were taken alternately with the peers'.
        files = sorted(files, key=lambda file: "ratios" not in file[1])
        machines = self._machines(files, "cpu")
        self.machine = ", ".join([*machines, *self._machines(files, "cuda")])
        self.files = files
        self.points, self.ratios, seen = [], {}, set()
        for path, content in files:
            records = content["records"]
            for record, point in zip(records, recipe_file.points_of([(path, content)]), strict=True):
                # Threads are compared within sweeps, so a sweep's point stays beside one of peers.py.
                key = (
                    record["case"],
                    record["implementation"],
                    record["backend"],
                    record["threads"],
                    "ratios" in content,
                )
                if key in seen:
                    continue
                seen.add(key)
                point.record, point.beside_peers = record, "ratios" in content
                self.points.append(point)
            for entry in content.get("ratios", []):
                self.ratios.setdefault(
                    (entry["case"], entry["backend"], entry["threads"], entry["implementation"], entry["peer"]), entry
                )
        self.thread_counts = self._threads("cpu")

    @staticmethod
    def _machines(files, backend):
        """Returns the name of the machine of a backend's records, in a list; empty if there are none."""
        names = {result_file.machine_name(backend, content["environment"]) for _, content in files
                 if backend == "cpu" or any(record["backend"] == backend for record in content["records"])}  # fmt: skip
        if len(names) > 1:
            raise InputError(
                f"files of {len(names)} machines ({', '.join(sorted(names))}) cannot be put into one table"
            )
        return list(names)

    def _threads(self, backend):
        return sorted({point.settings["threads"] for point in self.points
                       if point.beside_peers and point.settings["backend"] == backend})  # fmt: skip

    def settings(self):
        """Returns [(title of a block, backend, threads)], the settings under which the aims are judged."""
        counts = self.thread_counts or [1]
        gpu = ("GPU", "cuda", (self._threads("cuda") or [1])[0])
        if self.points and all(point.settings["backend"] == "cuda" for point in self.points):
            return [gpu]
        return [*((threads_words(count) if len(counts) > 1 else "", "cpu", count) for count in counts), gpu]

    def at(self, case, threads):
        """Returns {implementation or peer: Point} of a case."""
        result = {}
        for point in self.points:
            if case.fits(point.settings, threads):
                result.setdefault(point.settings["implementation"], point)
        return result

    def ratio(self, point, name, peer):
        return self.ratios.get((*_place(point), name, peer))

    def sources(self):
        return [content for _, content in self.files]


def _place(point):
    return point.row["case"], point.settings["backend"], point.settings["threads"]


def passed(points, names):
    return {name: points[name] for name in names if name in points and points[name].row["seconds"]}


def case_words(point):
    """Returns the settings that differ from their defaults, such as n = 4096, f = 64."""
    silent = {"operator", "backend", "machine", "threads", "implementation", "n", "height", "width", "aspect"}
    words = [f"n = {point.settings['n']}"]
    for key, value in sorted(point.settings.items()):
        plain = recipe_file.text_of(recipe_file.PLAIN.get(key, ""))
        if key not in silent and recipe_file.text_of(value) != plain and value is not False:
            words.append(
                key if value is True else value if key == "scalar" else f"{key} = {recipe_file.text_of(value)}"
            )
    return ", ".join(words)


# Values of one case, by kind of aim


def ratio_value(aim, measured, points):
    """Returns the ratio of the fastest peer's time to that of our best implementation."""
    return _against(aim, measured, points, lambda item: (item["ratio"], item["low"], item["high"]), max)


def within_value(aim, measured, points):
    return _against(aim, measured, points, lambda item: (1 / item["ratio"], 1 / item["high"], 1 / item["low"]), min)


def _against(aim, measured, points, number, best):
    results = []
    for name, point in passed(points, aim["implementations"]).items():
        own = []
        for peer in aim["peers"]:
            result = measured.ratio(point, name, peer)
            if result:
                own.append((*number(result), peer))
            elif peer != name and not (peer in points and MEMORY in (points[peer].row["reason"] or "")):
                return None  # the one that is missing might be the fastest
        if own:
            fastest = min(own) if best is max else max(own)
            results.append(Value(*fastest[:3], f"{name} against {fastest[3]}", case_words(point)))
    return best(results, key=lambda result: result.value, default=None)


def peak_value(aim, measured, points):
    def rate(point):
        operations = point.record["flops"]
        if aim.get("operations") == "fft":
            size = point.record["size"]
            operations = 5 * size["n_k"] * math.log2(size["n_k"]) * size["e"] * size.get("heads", 1)
        peak, _ = result_file.peaks(point.record, point.source["environment"])
        return operations / peak if operations and peak else None

    return _share(aim, points, rate)


def copy_value(aim, measured, points):
    def rate(point):
        environment = point.source["environment"]
        copy = (environment["gpu" if point.record["backend"] == "cuda" else "measured"] or {}).get(
            "copy_bytes_per_second"
        )
        return point.record["bytes"] / copy if point.record["bytes"] and copy else None

    return _share(aim, points, rate)


def trips_value(aim, measured, points):
    def seconds(point):
        floors, size = point.source["environment"]["measured"] or {}, point.record["size"]
        rates = {str(entry["bytes"]): entry["bytes_per_second"] for entry in floors.get("copy_rates", [])}
        rates["memory"] = floors.get("copy_bytes_per_second")
        if not all(rates.get(name) for name in aim["trips"]):
            return None
        numbers = size["n_k"] * size["e"] * size.get("heads", 1)
        return sum(bytes_ * numbers / rates[name] for name, bytes_ in aim["trips"].items())

    return _share(aim, points, seconds)


def _share(aim, points, rate):
    """Returns the shortest time that the counts of our fastest implementation allow, divided by its time."""
    own = passed(points, aim["implementations"])
    if not own:
        return None
    name, point = min(own.items(), key=lambda item: item[1].row["seconds"])
    least = rate(point)
    if least is None:
        return None
    row = point.row
    return Value(
        least / row["seconds"], least / row["seconds_high"], least / row["seconds_low"], name, case_words(point)
    )


def memory_value(aim, measured, points):
    own = {name: point.row["workspace_bytes"] for name, point in passed(points, aim["implementations"]).items()}
    others = {name: point.row["workspace_bytes"] for name, point in passed(points, aim["peers"]).items()}
    if not own or None in own.values() or not others or not all(others.values()):
        return None
    (name, bytes_), (peer, theirs) = (min(entry.items(), key=lambda item: item[1]) for entry in (own, others))
    return Value(bytes_ / theirs, None, None, f"{name} against {peer}", case_words(points[name]))


PER_CASE = {"ratio": ratio_value, "within": within_value, "peak": peak_value, "copy": copy_value, "trips": trips_value,
            "memory": memory_value}  # fmt: skip


# Values over all cases


def spread_value(aim, result):
    """Returns the ratio of the worst to the best time per token or operation."""
    units = []
    for points in result:
        own = passed(points, aim["implementations"])
        if own:
            name, point = min(own.items(), key=lambda item: item[1].row["seconds"])
            unit = point.record["flops"] if aim.get("per") == "flops" else point.settings["n"]
            row = point.row
            units.append(
                (row["seconds"] / unit, row["seconds_low"] / unit, row["seconds_high"] / unit, name, case_words(point))
            )
    if len(units) < 2:
        return None
    best, worst = min(units), max(units)
    low, high = max(1, worst[1] / best[2]), worst[2] / best[1]
    return Value(worst[0] / best[0], low, high, worst[3], f"{worst[4]} against {best[4]}")


def growth_value(aim, result):
    """Returns the ratio of the largest error at the last case to that at the first."""
    own = [passed(points, aim["implementations"][:1]) for points in result]
    ends = [entry[aim["implementations"][0]] for entry in own if entry]
    if len(ends) < 2 or not ends[0].row["max_error"]:
        return None
    value = ends[-1].row["max_error"] / ends[0].row["max_error"]
    return Value(value, None, None, aim["implementations"][0], f"{case_words(ends[-1])} against {case_words(ends[0])}")


OVER_CASES = {"spread": spread_value, "growth": growth_value}


@functools.lru_cache(maxsize=1)
def thread_pairs(measured):
    """Returns [(Point on one thread, Point on two, (ratio, low, high))] of the sweeps, with the speed-up of two threads."""
    points, pairs = {}, []
    for point in measured.points:
        if not point.beside_peers and point.row["seconds"] and point.settings["backend"] == "cpu":
            points[point.row["case"], point.settings["implementation"], point.settings["threads"]] = point
    for (case, name, threads), point in points.items():
        on_two = points.get((case, name, 2))
        if threads == 1 and on_two:
            pairs.append((point, on_two))
    if not pairs:
        return []
    with intervals.Intervals(measured.program) as program:
        return [
            (on_one, on_two, program.apart(on_two.record["seconds"]["samples"], on_one.record["seconds"]["samples"]))
            for on_one, on_two in pairs
        ]


def judge(aim, measured, threads):
    """Returns (the Value that decides or None, the verdict in words)."""
    if aim["kind"] == "threads":
        values = [Value(*ratio, f"{on_one.settings['operator']}/{on_one.settings['implementation']}", case_words(on_one))
                  for on_one, _, ratio in thread_pairs(measured)]  # fmt: skip
        missing, count = 0, len(values)
    else:
        results = [measured.at(case, threads) for case in aims_file.cases_of(aim)]
        if aim["kind"] in OVER_CASES:
            values = [OVER_CASES[aim["kind"]](aim, results)]
            missing = sum(not passed(points, aim["implementations"]) for points in results)
        else:
            values = [PER_CASE[aim["kind"]](aim, measured, points) for points in results]
            missing = sum(value is None for value in values)
        values, count = [value for value in values if value is not None], len(results)
    if not values:
        return None, "not measured"
    least = aim["kind"] in AT_LEAST
    worst = (min if least else max)(values, key=lambda value: value.value)
    if aim["aim"] is None:
        return worst, tables.NOT_APPLICABLE

    def reaches(wanted):
        return worst.value >= wanted if least else worst.value <= wanted

    if not reaches(aim["aim"]):
        return worst, "missed"
    if missing:
        return worst, f"not measured at {missing} of {count} cases, met at the others"
    if "stretch" in aim and reaches(aim["stretch"]):
        return worst, "met, and the stretch aim"
    return worst, "met"


# Tables


def wanted_words(aim):
    if aim["aim"] is None:
        return tables.NOT_APPLICABLE
    return f"{'at least' if aim['kind'] in AT_LEAST else 'at most'} {aim['aim']:g}"


def threads_words(count):
    return "1 thread" if count == 1 else f"{count} threads"


def aims_table(aims, measured):
    blocks, rows = [], []
    for title, backend, threads in measured.settings():
        block = []
        for aim in aims:
            if aim.get("backend", "cpu") != backend:
                continue
            value, verdict = judge(aim, measured, threads)
            texts = [value.text(), value.who, value.where] if value else [tables.NOT_APPLICABLE] * 3
            tried = aim.get("tried", "") if verdict == "missed" else ""
            block.append([aim["what"], wanted_words(aim), texts[0], verdict, texts[1], texts[2], tried])
            numbers = (
                [value.value, value.low, value.high, value.who, value.where] if value else [None, None, None, "", ""]
            )
            rows.append(
                [aim["id"], aim["kind"], backend, threads, aim["aim"], *numbers[:3], verdict, *numbers[3:], tried]
            )
        if block:
            blocks.append((title, block))
    rows = [["nan" if cell is None else cell for cell in row] for row in rows]
    columns = ["aim", "wanted", "measured", "verdict", "by", "worst at", "what was tried, what is next"]
    note = ("Ratios are medians over rounds in which both were timed alternately, with intervals; shares are of the peak or "
            "bandwidth that the program measured on this machine. The worst case decides.")  # fmt: skip
    header = ["aim", "kind", "backend", "threads", "wanted", "value", "low", "high", "verdict", "by", "at", "tried"]
    return tables.Table([], columns, blocks, note, header, rows, [])


def peers_table(measured):
    """Tabulates our measurements in the files with ratios: time, fraction of the roofline, ratio to each peer."""
    blocks, rows, remarks = {}, [], {}
    forms = {(*_place(point), point.settings["implementation"]): point.record["forms"]["counted"]
             for point in measured.points if "forms" in point.record}  # fmt: skip
    for point in sorted(measured.points, key=_order):
        name = point.settings["implementation"]
        if (
            not point.beside_peers
            or point.row["seconds"] is None
            or name in programs.PEERS
            or point.record["flops"] is None
        ):
            continue
        others = [entry for key, entry in measured.ratios.items() if key[:4] == (*_place(point), name)]
        row, share = point.row, point.row["floor_share"]
        where = "GPU" if point.settings["backend"] == "cuda" else threads_words(point.settings["threads"])
        own = [name, case_words(point), where, plot_style.format_seconds(row["seconds"]),
               plot_style.three_digits(share) if share else tables.NOT_APPLICABLE]  # fmt: skip
        numbers = [point.settings["operator"], name, row["case"], point.settings["backend"], point.settings["threads"], row["seconds"],
                   row["seconds_low"], row["seconds_high"], share]  # fmt: skip
        block = blocks.setdefault(point.settings["operator"], [])
        for entry in sorted(others, key=lambda entry: entry["peer"]) or [None]:
            ratio = (
                plot_style.with_interval(entry["ratio"], entry["low"], entry["high"])
                if entry
                else tables.NOT_APPLICABLE
            )
            form = entry and forms.get((*_place(point), entry["peer"]))
            peer = entry["peer"] if entry else tables.NOT_APPLICABLE
            block.append([*own, f"{peer} ({form})" if form else peer, ratio])
            rows.append(
                [
                    *numbers,
                    *(
                        [entry[key] for key in ("peer", "ratio", "low", "high", "rounds")]
                        if entry
                        else ["", *[None] * 4]
                    ),
                ]
            )
            if entry and entry["remark"]:
                remarks[entry["peer"]] = entry["remark"]
    rows = [["nan" if cell is None else cell for cell in row] for row in rows]
    words = ["Fraction of roofline: shortest time that this machine's measured peaks allow for the implementation's own counts / "
             "time taken. Ratio: time of the peer / time of ours, median over rounds in which both were timed alternately, with "
             "interval. Peers in Python ran on a warm heap"]  # fmt: skip
    if any(forms.values()):
        words.append(
            "On a GPU, peers are timed in eager mode and as a CUDA graph that is replayed; the faster form counts and is named"
        )
    words += [f"{peer} {remark}" for peer, remark in sorted(remarks.items())]
    columns = ["", "case", "on", "time", "fraction of roofline", "peer", "ratio"]
    header = ["operator", "implementation", "case", "backend", "threads", "seconds", "seconds_low", "seconds_high", "floor_share", "peer",
              "ratio", "low", "high", "rounds"]  # fmt: skip
    return tables.Table([], columns, list(blocks.items()), ". ".join(words) + ".", header, rows, []) if rows else None


def threads_table(measured):
    blocks, rows = {}, []
    for on_one, on_two, (ratio, low, high) in sorted(thread_pairs(measured), key=lambda pair: _order(pair[0])):
        seconds = [point.row["seconds"] for point in (on_one, on_two)]
        name = on_one.settings["implementation"]
        blocks.setdefault(on_one.settings["operator"], []).append(
            [name, case_words(on_one), *map(plot_style.format_seconds, seconds),
             plot_style.with_interval(ratio, low, high)])  # fmt: skip
        rows.append([on_one.settings["operator"], name, on_one.row["case"], *seconds, ratio, low, high])
    columns = ["", "case", "1 thread", "2 threads", "times faster"]
    header = ["operator", "implementation", "case", "seconds_1", "seconds_2", "ratio", "low", "high"]
    note = "Median of all ratios of two samples, with the interval of the rank test."
    return tables.Table([], columns, list(blocks.items()), note, header, rows, []) if rows else None


def _order(point):
    return (point.settings["operator"], point.settings["scalar"], point.settings["implementation"], point.settings["threads"],
            point.settings["n"], point.row["case"])  # fmt: skip


TITLES = {
    "aims": "Aims: met, missed, not measured",
    "peers": "Ours beside other programs",
    "threads": "Two threads against one",
}
FIGURES = {
    "peers": "Ours beside other libraries",
    "untuned": "Ours beside other libraries, at sizes that nothing was tuned for",
    "targets": "Ours beside other libraries, by set of instructions",
    "threads": "Two threads against one",
}


MEANINGS = {name: peer.what for name, peer in programs.PEERS.items()}
LIBRARIES = {name: "SciPy" if "scipy" in peer.needs else "PyTorch" for name, peer in programs.PEERS.items()}
TARGETS = {"avx512": "AVX-512", "avx2": "AVX2", "sse4": "SSE4"}


def target_words(measured):
    """Returns the instruction set of the results that were measured beside peers."""
    targets = {content["environment"].get("target") for _, content in measured.files if "ratios" in content}
    return ", ".join(TARGETS.get(target, str(target)) for target in sorted(targets))


def untuned_cases(aims, measured):
    """Returns the ids of the cases of aims for sizes at which nothing was tuned."""
    cases = [case for aim in aims if aim.get("untuned") for case in aims_file.cases_of(aim)]
    return {point.row["case"] for point in measured.points for case in cases if case.fits(point.settings, 1)}


def pictures(aims, made, measured, beside, formats):
    """Returns {file name: bytes} of the figures, as far as the tables have data."""
    drawings = []
    if made["peers"]:
        peers = made["peers"]
        drawings.append(("peers", peers, speed_figures.peer_rows(peers, LIBRARIES), speed_figures.draw_peers))
        rows = speed_figures.peer_rows(peers, LIBRARIES, untuned_cases(aims, measured))
        drawings.append(("untuned", peers, rows, speed_figures.draw_untuned))
        other = peers_table(beside) if beside else None
        if other:
            parts = {target_words(measured): peers, target_words(beside): other}
            rows = speed_figures.target_rows(parts, LIBRARIES)
            drawings.append(("targets", peers, rows, speed_figures.draw_targets))
    if made["threads"]:
        rows = speed_figures.thread_rows(made["threads"])
        drawings.append(("threads", made["threads"], rows, speed_figures.draw_threads))
    files = {}
    for name, table, rows, draw in drawings:
        if rows:
            words = catalogue.footer(measured.sources(), (measured.machine, "cpu"), None, table.csv())
            product = catalogue.Product(
                f"{name}-figure", FIGURES[name], None, words, draw=lambda draw=draw, rows=rows: draw(rows, MEANINGS)
            )
            files.update(product.files(formats, "long"))
    return files


def make(aims, files, program, formats=("svg",), beside=()):
    """Returns {file name: text or bytes}. beside: files of another instruction set."""
    measured = Measured(files, program)
    made = {"aims": aims_table(aims, measured), "peers": peers_table(measured), "threads": threads_table(measured)}
    texts = {}
    for name, table in made.items():
        if table is None:
            continue
        text = table.csv()
        words = catalogue.footer(measured.sources(), (measured.machine, "cpu"), None, text)
        texts[f"{name}.csv"] = text
        texts[f"{name}.md"] = f"**{TITLES[name]}**\n\n{table.markdown()}\n{words}\n"
        texts[f"{name}.tex"] = table.latex(TITLES[name], words)
    return {**texts, **pictures(aims, made, measured, Measured(beside, program) if beside else None, formats)}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="aims.py", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[-1].strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="result files of `reports.peers` and of sweeps on one machine"
    )
    parser.add_argument("--out", metavar="DIR", required=True, type=pathlib.Path, help="folder to write to")
    parser.add_argument(
        "--beside", metavar="FILE", nargs="+", default=[],
        help="output of `reports.peers` on the same machine with another instruction set (chosen by SUBQUAD_TARGET); the "
        "figure `targets` compares it with FILE",
    )  # fmt: skip
    parser.add_argument(
        "--aims",
        metavar="FILE",
        type=pathlib.Path,
        default=aims_file.PATH,
        help="list of aims (default: reports/aims.json)",
    )
    parser.add_argument(
        "--subquad",
        metavar="PROGRAM",
        default="build/subquad",
        help="subquad program, which computes the intervals of ratios (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        default="svg",
        type=figures.parse_formats,
        help="file formats of the figures, separated by commas (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        plot_style.use_style()
        texts = make(
            aims_file.load(options.aims), [(path, result_file.load(path)) for path in options.files], options.subquad,
            options.format, [(path, result_file.load(path)) for path in options.beside],
        )  # fmt: skip
        result_file.make_folder(options.out)
        for name, text in texts.items():
            (options.out / name).write_bytes(text.encode() if isinstance(text, str) else text)
            print(options.out / name)
    except InputError as error:
        print(f"aims.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"aims.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
