"""Draws cases in which two or more properties of a problem meet, since faults often show only where they do.

The factors follow from what an operator declares: lengths, heads, widths, flags, numbers, optional inputs; and the memory layout
of the arrays. Each factor has a few levels. Cases are chosen one by one, so that each pair of levels that the operator and the
function allow occurs at least once, if the number of cases suffices.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable

from subquad import _calls, _subquad

# A value is a setting of a case as in its id.
Value = tuple[str, str]
Levels = dict[str, str]
Pair = tuple[Value, Value]
Triple = tuple[Value, ...]

# Multiply-adds of the reference for a case. Larger ones are drawn only if no alternative is smaller.
MOST_WORK = 1.2e7
MOST_WORK_OF_GRADIENTS = 3e6

# Lengths beyond the tiles of 32 and 64 tokens that are usual in kernels: multiples of them and not.
OFF_TILES = (97, 257, 161, 193, 129)
ON_TILES = (128, 192)
FEWER_QUERIES = ((97, 192), (65, 257), (64, 128), (33, 161), (96, 128))
MORE_QUERIES = ((192, 97), (257, 65), (128, 64), (161, 33), (129, 96))
IMAGES = ((13, 11), (4, 19), (17, 6), (5, 23), (9, 7), (6, 17))
# Heads over heads of keys and values. In each, both wrong divisors (h // h_kv and h % h_kv) give wrong heads.
GROUPS = ((6, 2), (6, 3), (8, 2), (8, 1))
# The first width is that of queries and keys, the last that of values.
WIDTHS = {
    "equal widths": ((32, 32), (64, 64)),
    "wider values": ((20, 48), (16, 64)),
    "wider keys": ((48, 20), (64, 24)),
    "odd widths": ((33, 17), (17, 33), (21, 35)),
    "width 80 or 128": ((80, 64), (128, 48), (128, 128), (80, 80)),
}
TRIES = 9  # candidates, of which the case that meets most is taken
LAYOUTS = ("transposed", "packed", "expanded")
SHARED = ("queries", "keys")  # axes of a tensor of pairs, of which it may have one entry
# Sequences longer than all others.
LONG_KEYS, LONG_QUERIES, LONGER = 4100, 8, (513, 1025)


@dataclass(frozen=True)
class Drawn:
    """A case, and the memory layout of its arrays: "" (row-major) or one of LAYOUTS."""

    case: _subquad.Case
    layout: str = ""


@dataclass
class Coverage:
    """The pairs of levels that cases met. not_met: pairs that are possible and were not drawn."""

    factors: list[str] = field(default_factory=list)
    met: int = 0
    possible: int = 0
    not_met: list[str] = field(default_factory=list)
    impossible: int = 0
    triples_not_met: int = 0


def factors(scalar: str) -> tuple[str, str]:
    """Returns values of a positive number, such as a scale, that differ from its default. In 16-bit types they are small: with large
    scores, a right program that rounds them to the type has large errors."""
    return ("0.3125", "0.7") if scalar in ("float32", "float64") else ("0.0625", "0.09375")


class Drawing:
    """Draws the cases of one operator and function.

    fixed: values that hold for every case. accepts: tells whether the function accepts an argument of this name. wanted: tells
    whether the function accepts a case. sizes: the lengths that the user asked for, or []. least_rank: cases have at least this
    many leading axes. groups: whether heads may share keys and values.
    """

    def __init__(
        self,
        op: str,
        listing: dict[str, Any],
        fixed: list[Value],
        accepts: Callable[[str], bool],
        wanted: Callable[[_subquad.Case], bool],
        *,
        sizes: list[int],
        scalar: str,
        seed: int,
        backward: bool = False,
        least_rank: int = 0,
        groups: bool = True,
        layouts: bool = True,
    ):
        self.op, self.listing, self.fixed, self.accepts, self.wanted = op, listing, dict(fixed), accepts, wanted
        self.sizes, self.scalar, self.seed, self.backward = sizes, scalar, seed, backward
        self.least_rank, self.groups = least_rank, groups
        self.dice = random.Random(f"{op}/{scalar}/{seed}/{backward}")
        self.used: Counter[Value] = Counter()  # alternatives of levels in the cases so far
        self.picks: list[Value] = []  # those of the case that is being built
        self.image = self._image_axes()
        self.choices = self._choice_rules()
        self.levels = self._all_levels(layouts)
        types = {rule["name"]: rule["type"] for rule in listing["params"]}
        kinds = ("boolean", "integer", "list of integers")
        # What decides which keys a query sees, and what is added to its weights.
        self.main = {
            name
            for name in self.levels
            if name in ("length", "heads") or name.startswith("with ") or types.get(name) in kinds
        }

    def _weight(self, pair: Pair) -> int:
        return 3 if all(name in self.main for name, _ in pair) else 1

    # ---- factors

    def _image_axes(self) -> list[str]:
        """Returns the parameters whose product is a length, such as height and width, in this order; or []."""
        names = {rule["name"] for rule in self.listing["params"]}
        for rule in self.listing["inputs"]:
            for extent in rule["shape"]:
                axes = re.fullmatch(r"(\w+)\*(\w+)", extent)
                if axes and set(axes.groups()) <= names:
                    return list(axes.groups())
        return []

    def _choice_rules(self) -> dict[str, list[str]]:
        return {rule["name"]: rule["choices"] for rule in self.listing["params"] if rule.get("choices")}

    def _rules(self, key: str, chosen: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Returns the parameters, inputs or sizes that exist with these values, by name."""

        def holds(name: str, allowed: list[str]) -> bool:
            if allowed == ["not given"]:
                return name not in chosen
            return name in chosen if allowed == ["given"] else chosen.get(name) in allowed

        return {
            rule["name"]: rule
            for rule in self.listing[key]
            if all(holds(name, allowed) for name, allowed in rule["when"].items())
        }

    def _all_levels(self, layouts: bool) -> dict[str, list[str]]:
        """Returns the levels of every factor; the first one is the plainest. A factor with a single level is left out."""
        levels: dict[str, list[str]] = {}
        for name, choices in self.choices.items():
            levels[name] = [self.fixed[name]] if name in self.fixed else list(choices) if self.accepts(name) else []
        levels = {name: texts for name, texts in levels.items() if texts}
        levels["length"] = self._length_levels()
        levels["heads"] = self._head_levels()
        widths = [name for name in self._widths() if name not in self.fixed]
        if widths:
            levels["widths"] = list(WIDTHS)
        for rule in self.listing["sizes"]:
            if rule["name"] in self.fixed or ("of_input" in rule and not self.accepts(rule["of_input"])):
                continue
            if isinstance(rule["generated"], int) and rule["generated"] < 32:
                levels[rule["name"]] = ["default", "other"]
        for rule in self.listing["params"]:
            name, default = rule["name"], rule.get("default")
            if name in self.fixed or name in self.image or not self.accepts(name):
                continue
            if not self.accepts(rule.get("of_input", name)):
                continue
            if rule["type"] == "boolean":
                levels[name] = {"true": ["1", "0"], "false": ["0", "1"]}.get(str(default), ["default", "1", "0"])
            elif rule["type"] in ("number", "integer"):
                levels[name] = ["default", "other"]
            elif name == "key_lengths" or (name == "packed_q" and self.accepts("packed_k")):
                levels[name] = ["default", "other"]
        for rule in [*self.listing["inputs"], *self.listing["outputs"]]:
            if (
                not rule.get("required", True)
                and not _calls.is_cotangent(rule["name"])
                and not (self.backward and rule in self.listing["outputs"])
                and self.accepts(rule["name"])
                and "with" not in self.fixed
            ):
                shared = [f"one for all {axis}" for axis in SHARED] if rule["per_pair"] else []
                levels[f"with {rule['name']}"] = ["no", "yes", *shared]
        if layouts:
            levels["layout"] = ["row-major", *LAYOUTS]
        return {name: texts for name, texts in levels.items() if texts}

    def _is_fixed_length(self) -> bool:
        return any(name in self.fixed for name in [*self._lengths({}), *self.image])

    def _lengths(self, chosen: dict[str, str]) -> list[str]:
        """Returns the sizes that follow n: n_q and n_k, or n."""
        return [name for name, rule in self._rules("sizes", chosen).items() if rule["generated"] == "n"]

    def _has_projections(self, chosen: dict[str, str]) -> bool:
        return "omega" in self._rules("inputs", chosen)

    def _widths(self) -> list[str]:
        names = [rule["name"] for rule in self.listing["sizes"] if rule["generated"] != "n"]
        rules = {rule["name"]: rule for rule in self.listing["sizes"]}
        return [name for name in dict.fromkeys(names) if rules[name]["generated"] >= 32]

    def _length_levels(self) -> list[str]:
        if self._is_fixed_length():
            return ["fixed"]
        levels = ["off tiles", "on tiles"] if not self.sizes else ["given"]
        if any(rule["generated"] == "n" for rule in self.listing["sizes"]):
            names = {rule["name"] for rule in self.listing["sizes"] if rule["generated"] == "n"}
            if len(names - {"n"}) > 1:
                levels += ["fewer queries", "more queries"]
            if self._windows():
                levels.append("near a window")
        else:
            levels = []
        if self.image and all(self.accepts(name) for name in self.image):
            levels.append("image")
        return levels

    def _windows(self) -> list[int]:
        """Returns integers among the fixed parameters that a length may be compared with."""
        names = {rule["name"] for rule in self.listing["params"] if rule["type"] == "integer" and rule["required"]}
        texts = [text for name, text in self.fixed.items() if name in names]
        values = sorted({int(text) for text in texts if text.isdigit()})
        return [value for value in values if 8 <= value <= 1024]

    def _head_levels(self) -> list[str]:
        if "leading" in self.fixed:
            return ["fixed"]
        levels = ["none", "heads", "batch"]
        if self.groups:
            levels += ["groups", "batch of groups"]
        if self.least_rank == 1:
            levels = levels[1:]
        if self.least_rank == 2:
            levels = [level for level in levels if level.startswith("batch")]
        if "heads" in self.fixed or "batch" in self.fixed:
            wanted = ("heads" in self.fixed, "batch" in self.fixed)
            levels = [level for level in levels if level != "none" and (level.startswith("batch") or not wanted[1])]
        return levels

    # ---- one case

    def _turn(self, name: str, alternatives: list[Any] | tuple[Any, ...]) -> list[Any]:
        """Returns the alternatives, beginning with those that the fewest cases have used."""
        shuffled = list(alternatives)
        self.dice.shuffle(shuffled)
        return sorted(shuffled, key=lambda alternative: self.used[name, str(alternative)])

    def _next(self, name: str, alternatives: list[Any] | tuple[Any, ...]) -> Any:
        """Returns one of the alternatives that the fewest cases have used."""
        chosen = self._turn(name, alternatives)[0]
        self.picks.append((name, str(chosen)))
        return chosen

    def _length_values(self, level: str, chosen: dict[str, str]) -> list[list[Value]]:
        """Returns alternatives for lengths, the next one first."""
        if level == "fixed":
            return [[]]
        if level == "image":
            return self._turn(
                level, [[(name, str(extent)) for name, extent in zip(self.image, image)] for image in IMAGES]
            )
        names = self._lengths(chosen)
        if not names:
            return []
        if level.endswith("queries"):
            if len(names) < 2:
                return []
            if self.sizes:
                n = self.dice.choice(self.sizes)
                pairs: Any = [(n, n + n // 3 + 1) if level == "fewer queries" else (n + n // 3 + 1, n)]
            else:
                pairs = FEWER_QUERIES if level == "fewer queries" else MORE_QUERIES
            return self._turn(level, [[(name, str(extent)) for name, extent in zip(names, pair)] for pair in pairs])
        if level == "near a window":
            lengths = [n for w in self._windows() for n in (w - 1, w, w + 1, 2 * w + 1) if n > 0]
        elif level == "given":
            lengths = self.sizes
        else:
            lengths = list(OFF_TILES if level == "off tiles" else ON_TILES)
        if self.backward and not self.sizes:
            lengths = [n for n in lengths if n < 200] or lengths
        return self._turn(level, [[(name, str(n)) for name in names] for n in lengths])

    def _head_values(self, level: str, data: list[str]) -> list[Value] | None:
        if level in ("none", "fixed"):
            return []
        batch = self.fixed.get("batch", str(self.dice.choice((2, 3))))
        values: list[Value] = []
        shared = data[1:] if len(data) > 1 else data
        if level in ("groups", "batch of groups"):
            # With one head of keys, a wrong item of the batch may give the right head.
            groups = [group for group in GROUPS if level == "groups" or group[1] > 1]
            if "heads" in self.fixed:
                heads = int(self.fixed["heads"])
                groups = [(heads, part) for part in range(1, heads) if heads % part == 0]
                if not groups:
                    return None
            heads, part = self._next(level, groups)
            batch = self.fixed.get("batch", "3" if part == 3 else "2")
            axes = f"{batch}x{part}" if level.startswith("batch") else f"{part}"
            values.append(("leading", "+".join(f"{name}:{axes}" for name in shared)))
        else:
            heads = int(self.fixed.get("heads", self.dice.choice((2, 3, 5))))
        values.append(("heads", str(heads)))
        if level.startswith("batch"):
            values.append(("batch", batch))
        if self.dice.random() < 0.8 or (len(data) < 2 and "leading" in dict(values)):
            values.append(("per_head", "1"))
        return values

    def _width_values(self, level: str, sizes: dict[str, dict[str, Any]], has_projections: bool) -> list[Value]:
        widths = [name for name in self._widths() if name in sizes]
        first, last = self._next(level, WIDTHS[level])
        if has_projections:
            first = min(first, 48)  # random features of longer rows are too small for float32
        values = {name: self.dice.choice((16, 24, 33)) for name in widths}
        if widths:
            keys = "d" if "d" in widths else widths[0]
            values[keys] = first
            values["e" if "e" in widths else widths[-1]] = last
            if "D" in widths and keys != "D":
                values["D"] = self.dice.choice((24, 40, 33))
        return [(name, str(value)) for name, value in values.items()]

    def _param_value(self, rule: dict[str, Any], values: dict[str, str], queries: int, keys: int) -> str:
        """Returns another value of a parameter than its default."""
        name = rule["name"]
        if name == "key_lengths":
            items = int(values.get("batch", "1"))
            lengths = [
                max(1, keys - self.dice.randrange(1, max(2, keys // 3)) - item * (keys // 4)) for item in range(items)
            ]
            if items > 1 and self.dice.random() < 0.25:
                lengths[-1] = 0  # an item without keys
            self.dice.shuffle(lengths)
            return "+".join(map(str, lengths))
        if rule["type"] == "number":
            return str(self._next(name, factors(self.scalar) if rule.get("above") == 0 else ("0.5", "0.25")))
        if name.startswith("window_"):
            return str(self._next(name, (7, max(0, keys // 3), 31, 0, 64)))
        if "default" in rule:  # a position
            aligned = keys - queries if keys > queries or int(rule.get("min", 0)) < 0 else 0
            return str(self._next(name, (aligned or 5, 31, max(1, keys // 2))))
        least = max(1, int(rule.get("min", 1)))
        parts = [
            part for part in (2, 3, 4, 5, 7, 13, 16) if keys % part == 0
        ]  # blocks and segments must divide the length
        return str(max(least, self._next(name, parts or (3, 7, 2, 5, 13))))

    def _packed_values(self, queries: int, keys: int) -> dict[str, str]:
        """Returns lengths of packed sequences, some of which may be empty, and in some cases their positions."""
        count = self.dice.choice((2, 3, 4))

        def split(length: int) -> list[int]:
            cuts = sorted([0, length, *(self.dice.randrange(length + 1) for _ in range(count - 1))])
            return [end - start for start, end in itertools.pairwise(cuts)]

        packed_q = split(queries)
        packed_k = packed_q if queries == keys and self.dice.random() < 0.5 else split(keys)
        lists = {"packed_q": packed_q, "packed_k": packed_k}
        if "query_offset" not in self.fixed and self.accepts("query_offset") and self.dice.random() < 0.5:
            lists["query_offset"] = [k - q for q, k in zip(packed_q, packed_k, strict=True)]
        return {name: "+".join(map(str, numbers)) for name, numbers in lists.items()}

    def build(self, levels: Levels) -> Drawn | None:
        """Returns a case with these levels, or None if they exclude each other."""
        self.picks = []
        values = dict(self.fixed)
        values.update({name: levels[name] for name in self.choices if name in levels})
        chosen = {name: values[name] for name in values}
        image = levels["length"] == "image"
        if image:
            chosen.update({name: "" for name in self.image})
        sizes, params = self._rules("sizes", chosen), self._rules("params", chosen)
        for name in self.choices:  # a choice that does not exist with the others
            if name in values and name not in params:
                if name in self.fixed or levels.get(name) != self.levels[name][0]:
                    return None
                del values[name]
        data = self._data(values)
        if data is None:
            return None
        heads = self._head_values(levels["heads"], data)
        if heads is None:
            return None
        values.update(heads)
        if levels.get("layout") == "expanded" and "heads" in values:
            values["per_head"] = self.fixed.get("per_head", "1")
        if "widths" in levels:
            widths = self._width_values(levels["widths"], sizes, self._has_projections(chosen))
            values.update({name: text for name, text in widths if name not in self.fixed})
        optional = {name[5:]: level for name, level in levels.items() if name.startswith("with ") and level != "no"}
        if optional:
            values["with"] = "+".join(optional)
        shared = [
            f"{name}:{axis}" for name, level in optional.items() for axis in SHARED if level == f"one for all {axis}"
        ]
        if shared:
            values["shared"] = "+".join(shared)
        for name, level in levels.items():
            rule = sizes.get(name)
            if rule and level == "other" and name not in self.fixed:
                default, input = int(rule["generated"]), rule.get("of_input")
                if input and input not in optional:
                    return None
                odd = 0 if input else 1
                other = self._next(f"size {name}", (max(rule["min"], default // 2 + odd), 2 * default + odd))
                values[name] = str(other)
        if self.backward:
            values["backward"] = "1"
        best: _subquad.Case | None = None
        picks = list(self.picks)
        for lengths in self._length_values(levels["length"], chosen):
            self.picks = [*picks, (levels["length"], str(lengths))]
            case = self._with_params(levels, params, {**values, **dict(lengths)}, lengths)
            if case is None:
                continue
            if case.work <= (MOST_WORK_OF_GRADIENTS if self.backward else MOST_WORK):
                best = case
                break
            if best is None or case.work < best.work:
                best = case
        if best is None:
            return None
        layout = levels.get("layout", "row-major")
        if layout == "expanded" and not expandable(best):
            return None
        return Drawn(best, "" if layout == "row-major" else layout)

    def _data(self, values: dict[str, str]) -> list[str] | None:
        own = {"heads", "batch", "per_head", "leading", "key_lengths"}
        known = tuple((name, text) for name, text in values.items() if name not in own)
        try:
            return _subquad.case_for(self.op, 64, list(known), self.scalar, self.seed).data_inputs
        except ValueError:
            return None

    def _with_params(
        self, levels: Levels, params: dict[str, dict[str, Any]], values: dict[str, str], lengths: list[Value]
    ) -> _subquad.Case | None:
        extents = [int(text) for _, text in lengths]
        n = max(extents, default=64)
        if lengths and lengths[0][0] in self.image:
            n = extents[0] * extents[1]
            extents = [n]
        if not extents:
            extents = [int(self.fixed[name]) for name in self._lengths({}) if name in self.fixed] or [n]
        queries, keys = extents[0], extents[-1]
        for name, level in levels.items():
            rule = params.get(name)
            if rule is None or name in self.choices:
                # A parameter that does not exist with these choices is at its plainest level only.
                is_param = any(other["name"] == name for other in self.listing["params"])
                if is_param and name not in self.choices and level != self.levels[name][0]:
                    return None
                continue
            if rule.get("of_input", "") not in ("", *values.get("with", "").split("+")):
                if level != self.levels[name][0]:
                    return None
                continue
            if rule["type"] == "boolean":
                if level != "default":
                    values[name] = level
            elif level == "other" and name == "packed_q":
                values.update(self._packed_values(queries, keys))
            elif level == "other":
                if name == "eps" and self._has_projections(values):
                    return None  # random features of long rows are so small that eps would dominate
                values[name] = self._param_value(rule, values, queries, keys)
        try:
            case = _subquad.case_for(self.op, n, list(values.items()), self.scalar, self.seed)
        except ValueError:
            return None
        return case if self.wanted(case) else None

    # ---- all cases

    def count(self) -> int:
        """Returns the number of cases in which nearly all pairs and triples meet."""
        factors_that_vary = sum(len(texts) > 1 for texts in self.levels.values())
        return 32 if factors_that_vary <= 12 else 40 if factors_that_vary <= 16 else 64

    def draw(self, count: int) -> tuple[list[Drawn], Coverage]:
        """Returns up to `count` different cases. Every second one has row-major arrays."""
        self._drop_lengths()
        possible, impossible = self._pairs()
        uncovered = set(possible)
        triples = self._triples(possible)
        cases: list[Drawn] = []
        ids: set[tuple[str, str]] = set()
        for index in range(count):
            best: tuple[float, Levels, Drawn, list[Value]] | None = None
            for attempt in range(TRIES):
                # Every third candidate, and later every second one, begins with a triple.
                begins_with_pair = attempt % (3 if 2 * index < count else 2) > 0
                levels = self._candidate(uncovered if begins_with_pair else set(), triples, possible, index)
                if levels is None:
                    continue
                drawn = self.build(levels)
                if drawn is None or (drawn.case.id, drawn.layout) in ids:
                    continue
                gain = sum(self._weight(pair) for pair in _pairs_of(levels) & uncovered)
                gain += len(_triples_of(levels) & triples)
                if best is None or gain > best[0]:
                    best = gain, levels, drawn, self.picks
            if best is None:
                continue
            _, levels, drawn, picks = best
            self.used.update(picks)
            cases.append(drawn)
            ids.add((drawn.case.id, drawn.layout))
            uncovered -= _pairs_of(levels)
            triples -= _triples_of(levels)
        names = [name for name, texts in self.levels.items() if len(texts) > 1]
        coverage = Coverage(names, len(possible) - len(uncovered), len(possible), impossible=impossible)
        coverage.triples_not_met = len(triples)
        coverage.not_met = sorted(_words(pair) for pair in uncovered)
        return cases, coverage

    def _drop_lengths(self) -> None:
        """Leaves out the kinds of lengths of which the function accepts no plain case, such as sequences if it requires an image."""
        plain = {name: texts[0] for name, texts in self.levels.items()}
        lengths = [level for level in self.levels["length"] if self.build({**plain, "length": level})]
        self.levels["length"] = lengths or self.levels["length"]

    def _pairs(self) -> tuple[set[Pair], int]:
        """Returns the pairs of levels for which a case exists if everything else is plain but the inputs that the two need, and the
        number of others."""
        plain = {name: texts[0] for name, texts in self.levels.items()}
        possible: set[Pair] = set()
        impossible = 0
        for first, second in itertools.combinations(self.levels, 2):
            for a, b in itertools.product(self.levels[first], self.levels[second]):
                levels = {**plain, **self._inputs_of({first: a, second: b}), first: a, second: b}
                if levels.get("layout") == "expanded" and levels["heads"] == "none" and not self.backward:
                    if "heads" in (first, second) or len(self.levels["heads"]) == 1:
                        impossible += 1
                        continue
                    levels["heads"] = self.levels["heads"][1]
                if self.build(levels) is None:
                    impossible += 1
                else:
                    possible.add(_pair((first, a), (second, b)))
        return possible, impossible

    def _inputs_of(self, levels: Levels) -> Levels:
        """Returns the levels of the optional inputs without which sizes and parameters at these levels have no meaning."""
        return {
            f"with {rule['of_input']}": "yes"
            for rule in [*self.listing["sizes"], *self.listing["params"]]
            if rule.get("of_input") and rule["name"] in levels and levels[rule["name"]] != self.levels[rule["name"]][0]
        }

    def _triples(self, possible: set[Pair]) -> set[Triple]:
        """Returns the triples of levels that count beyond pairs: of lengths, heads and what decides which keys a query sees or adds
        to its weights. At most one of three properties has many levels, as more would need more cases than there are.
        """
        triples: set[Triple] = set()
        names = sorted(name for name in self.main if len(self.levels[name]) > 1)
        for three in itertools.combinations(names, 3):
            if sum(len(self.levels[name]) > 2 for name in three) > 1:
                continue
            for texts in itertools.product(*(self.levels[name] for name in three)):
                triple = tuple(zip(three, texts))
                if all(pair in possible for pair in itertools.combinations(triple, 2)):
                    triples.add(triple)
        return triples

    def _candidate(self, uncovered: set[Pair], triples: set[Triple], possible: set[Pair], index: int) -> Levels | None:
        """Returns levels of all factors that meet many uncovered pairs, or None if none is compatible."""
        layouts = self.levels.get("layout", ["row-major"])
        layouts = layouts[:1] if index % 2 == 0 or len(layouts) == 1 else layouts[1:]
        levels: Levels = {}
        if uncovered:
            most = max(map(self._weight, uncovered))
            pair = self.dice.choice(sorted(pair for pair in uncovered if self._weight(pair) == most))
            if all(name != "layout" or level in layouts for name, level in pair):
                levels = dict(pair)
        elif triples:
            levels = dict(self.dice.choice(sorted(triples)))
        names = [name for name in self.levels if name not in levels]
        self.dice.shuffle(names)
        for name in names:
            scores: list[tuple[float, str]] = []
            for level in layouts if name == "layout" else self.levels[name]:
                pairs = [_pair((name, level), item) for item in levels.items()]
                if any(pair not in possible for pair in pairs):
                    continue
                score = float(sum(self._weight(pair) for pair in pairs if pair in uncovered))
                if triples:
                    score += 0.5 * sum(
                        tuple(sorted(((name, level), *two))) in triples
                        for two in itertools.combinations(levels.items(), 2)
                    )
                scores.append((score + 0.4 * self.dice.random(), level))
            if not scores:
                return None
            levels[name] = max(scores)[1]
        return levels

    def long_cases(self) -> list[Drawn]:
        """Returns plain cases of longer sequences: many keys for few queries, and squares beyond the usual lengths."""
        if self.sizes or self._is_fixed_length():
            return []
        plain = {name: texts[0] for name, texts in self.levels.items()}
        values = {**self.fixed, **{name: plain[name] for name in self.choices if name in plain}}
        exist = self._rules("params", values)
        values = {name: text for name, text in values.items() if name not in self.choices or name in exist}
        heads = self._head_values(plain["heads"], self._data(values) or [])
        values.update(heads or [])
        values.update(
            {name: text for name, text in (("d", "64"), ("e", "32")) if name in self._widths() and name not in values}
        )
        names = self._lengths(values)
        params = self._rules("params", values)
        requests: list[dict[str, str]] = []
        if len(names) > 1:
            few = {names[0]: str(LONG_QUERIES), names[1]: str(LONG_KEYS)}
            position = params.get("query_offset")
            if values.get("causal", "0") == "1" and position and self.accepts("query_offset"):
                few["query_offset"] = str(LONG_KEYS - LONG_QUERIES)
            requests.append(few)
        for n in LONGER if names else ():
            requests.append({name: str(n) for name in names})
        cases = []
        for request in requests:
            try:
                n = max(int(request[name]) for name in names)
                case = _subquad.case_for(self.op, n, list({**values, **request}.items()), self.scalar, self.seed)
            except ValueError:
                continue
            if self.wanted(case):
                cases.append(Drawn(case))
        return cases


def expandable(case: _subquad.Case) -> list[str]:
    """Returns the inputs of which every head, or every batch item, may be the same: all with such an axis but the first; for
    gradients, also the incoming one."""
    shapes, leading = case.input_shapes, case.leading_axes
    names = [name for name in shapes if not _calls.is_cotangent(name)]
    first = next((name for name in names if leading[name]), None)
    chosen = [name for name in names if name != first and leading[name] and max(shapes[name][: leading[name]]) > 1]
    return chosen + (["grad"] if "grad" in shapes else [])


def summary(cases: list[_subquad.Case]) -> str:
    """Describes the sizes of cases."""
    if not cases:
        return ""
    settings = [case.settings for case in cases]
    parts = [f"up to {max(case.queries for case in cases)} queries and {max(case.keys for case in cases)} keys"]
    for name in ("d", "e"):
        values = sorted({entry[name] for entry in settings if name in entry})
        if values:
            parts.append(f"{name} {values[0]}" + (f" to {values[-1]}" if len(values) > 1 else ""))
    heads = sorted({entry["heads"] for entry in settings if entry["heads"]})
    if heads:
        parts.append(f"up to {heads[-1]} heads")
    return ", ".join(parts)


def _pair(a: Value, b: Value) -> Pair:
    return (a, b) if a[0] < b[0] else (b, a)


def _pairs_of(levels: Levels) -> set[Pair]:
    return set(itertools.combinations(sorted(levels.items()), 2))


def _triples_of(levels: Levels) -> set[Triple]:
    return set(itertools.combinations(sorted(levels.items()), 3))


def _words(pair: Pair) -> str:
    return " with ".join(f"{name}={level}" for name, level in pair)


def count_words(counts: Counter[str], most: int = 2) -> str:
    """Formats reasons with their numbers, the commonest first."""
    parts = [f"{text} ({count})" for text, count in counts.most_common(most)]
    return "; ".join(parts) + (f"; {len(counts) - most} further reasons" if len(counts) > most else "")
