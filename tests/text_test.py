#!/usr/bin/env python3
"""Checks that what text names exists: paths, links, commands, options, recipes, presets, labels, tables of files.

    python3 tests/text_test.py [build/subquad]

It reads Markdown, comments, help texts and messages of all files that git tracks. Without the program, commands of
`subquad` are not checked. Planted faults show that every rule can fail.
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = None
ROOMS = "reference|optimized|cuda|harness|reports|tests|examples"
CODE = {".h", ".cc", ".cu", ".py", ".cmake", ".sh", ".in"}
TEXT = CODE | {".md", ".json", ".txt", ".yml", ".html", ""}
MADE_UP = {"tests/text_test.py", "tests/layout_test.py"}  # name files on purpose that do not exist
PRESETS = {"paper", "gpu"}  # sums of recipes
GENERATED = {"embedded.cc", "build_info.cc", "highway.h"}  # by the build; of a library
# Documents that are not in the repository, and phrases that read like a translation.
ELSEWHERE = re.compile(r"\bSPEC(?:\.md)?\b|\b(?:CLAIMS|DESIGN|STYLE)\.md\b")
BANNED = re.compile(
    r"\b(?:made anew|measures? anew|computed anew|says? of (?:itself|themselves)|from which on|to the bit|holds? true|whoever meets"
    r"|an erratum is none|is none that)\b", re.I
)  # fmt: skip


def tracked(root):
    """What git knows or would add; in an archive of the sources, all that does not look like a build."""
    run = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=False
    )
    paths = run.stdout.splitlines()
    if run.returncode:
        found = (path.relative_to(root) for path in root.rglob("*"))
        paths = sorted(str(path) for path in found if not re.match(r"build|.*\b__pycache__\b", str(path)))
    return [path for path in paths if (root / path).is_file()]


def comments(path, text):
    """Comments and texts in quotes: code without what only a compiler reads. A line stays at its number."""
    if pathlib.Path(path).suffix in (".h", ".cc", ".cu"):
        return re.sub(r"^#include.*$", "", text, flags=re.M)
    return text


class Tree:
    """What exists."""

    def __init__(self, root, program=None):
        self.root = root
        self.paths = tracked(root)
        self.folders = {str(parent) for path in self.paths for parent in pathlib.PurePosixPath(path).parents}
        self.basenames = {path.rsplit("/", 1)[-1] for path in self.paths}
        self.recipes = {
            pathlib.Path(path).stem for path in self.paths if fnmatch.fnmatch(path, "reports/recipes/*.json")
        }
        self.presets = PRESETS | {
            pathlib.Path(path).stem for path in self.paths if fnmatch.fnmatch(path, "harness/sweeps/presets/*.json")
        }
        cmake = root / "CMakePresets.json"
        self.cmake_presets = (
            {one["name"] for one in json.loads(cmake.read_text())["configurePresets"]} if cmake.exists() else set()
        )
        lists = [root / path for path in self.paths if path.endswith("CMakeLists.txt")]
        self.labels = set(re.findall(r"LABELS? \"?([a-z]+)", " ".join(file.read_text() for file in lists)))
        self.labels.add("quick")
        self.program = program
        self.helps = {}

    def exists(self, path):
        if path in self.folders or path in self.paths:
            return True
        patterns = [path, f"{path}.*"] if "." not in path.rsplit("/", 1)[-1] else [path]
        return any(fnmatch.filter(self.paths, pattern) or fnmatch.filter(self.folders, pattern) for pattern in patterns)

    def options(self, command):
        """Options and words of the help of a command, or None if there is no such command."""
        if command not in self.helps:
            run = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, cwd=ROOT)
            self.helps[command] = set(re.findall(r"[\w-]+", run.stdout)) if run.returncode == 0 else None
        return self.helps[command]


def expanded(word):
    """`a/{b,c}.h` as its parts."""
    found = re.search(r"\{([^{}]*)\}", word)
    if not found:
        return [word]
    return [one for part in found[1].split(",") for one in expanded(word[: found.start()] + part + word[found.end() :])]


def placeholder(word):
    """Whether a part of it is a word for something to fill in: MACHINE, NAME, X."""
    return bool(re.search(r"(?:^|[/_.*-])[A-Z]{1,}(?:$|[/_.*-])", word)) or "<" in word or "$" in word


def path_faults(tree, path, text):
    """Paths are those of the repository, or begin at the file's own folder."""
    own = path.rpartition("/")[0]
    faults = []
    for found in re.finditer(rf"(?<![\w./$}}-])(?:{ROOMS})/[\w./*{{}},-]*", text):
        word = found[0].rstrip(".,/-")
        if "," in word and "{" not in word:
            word = word.split(",")[0]
        for one in expanded(word):
            one = one.rstrip("/")
            if not (
                placeholder(one) or tree.exists(one) or tree.exists(f"{own}/{one}") or one.startswith("tests/subquad_")
            ):
                faults.append(f"{one} does not exist")
    for found in re.finditer(r"(?<![\w./*{}<>\"-])(\w+(?:-inl)?\.(?:h|cc|cu|py))\b(?!\()", text):
        if found[1] not in tree.basenames | GENERATED and not placeholder(found[1]):
            faults.append(f"{found[1]} does not exist")
    return faults


def link_faults(tree, path, text):
    faults = []
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text):
        target = "".join(target)
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        place = (tree.root / path).parent / file if file else tree.root / path
        if not place.exists():
            faults.append(f"the link {target} leads nowhere")
        elif anchor:
            there = place.read_text(encoding="utf-8")
            heads = {
                re.sub(r"[^\w -]", "", head.strip().lower()).replace(" ", "-")
                for head in re.findall(r"^#+ (.*)$", there, re.M)
            }
            if anchor not in heads and f'id="{anchor}"' not in there:
                faults.append(f"the link {target} leads to no heading")
    return faults


def command_faults(tree, text):
    faults = []
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.splitlines():
        for tail in re.findall(r"(?:build/|[`\s])subquad (?=[a-z-])([^`|#;)]*)", line) if tree.program else []:
            faults += subquad_faults(tree, tail)
        for module, tail in re.findall(r"python3 -m (reports\.\w+)([^`|#;)]*)", line):
            known = tree.options((sys.executable, "-m", module))
            if known is None:
                faults.append(f"there is no python3 -m {module}")
                continue
            faults += [f"{module} has no option {one}" for one in re.findall(r" (--[a-z-]+)", tail) if one not in known]
        for tail in re.findall(r"(?:^[ #]*|`)\./run-sweeps((?: [\w-]+)+)", line):
            for name in tail.split()[:1]:
                if (
                    not name.startswith("--")
                    and name not in tree.recipes | PRESETS | {"quick", "reproduce", "publish"}
                    and not placeholder(name)
                ):
                    faults.append(f"there is no recipe {name}")
        for label in re.findall(r"(?:run-tests|ctest)[^`|#;&]*? -L ([a-z]+)\b", line):
            if label not in tree.labels:
                faults.append(f"no test has the label {label}")
        for tool, name in re.findall(r"\b(cmake|ctest|subquad sweep)[^`|#;&]*? --preset ([a-z0-9-]+)", line):
            if name not in (tree.presets | tree.recipes if tool == "subquad sweep" else tree.cmake_presets):
                faults.append(f"there is no preset {name}")
    return faults


def subquad_faults(tree, tail):
    words = tail.split()
    command = words[0].rstrip(".,:")
    if not re.fullmatch(r"[a-z]+", command):
        return []
    commands = tree.options((tree.program,))
    if command not in commands or (known := tree.options((tree.program, command))) is None:
        # A sentence, "subquad checks ...", is not a command.
        return [f"there is no subquad {command}"] if any(word.startswith("--") for word in words) else []
    return [f"subquad {command} has no option {one}" for one in re.findall(r" (--[a-z-]+)", tail) if one not in known]


def table_faults(tree, path, text):
    """A table of files names every source of its folder, and nothing else."""
    folder, _, _ = path.rpartition("/")
    if not folder:
        return []
    faults = []
    for table in re.findall(r"^\| files? \|.*\n\|[-| ]+\n((?:\|.*\n?)+)", text, re.M):
        names = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
        sources = [one.rsplit("/", 1)[-1] for one in tree.paths
                   if one.rsplit("/", 1)[0] == folder and pathlib.Path(one).suffix in CODE | {".json"}]  # fmt: skip
        sources = [one for one in sources if one != "__init__.py"]
        named = set()
        for name in names:
            fitting = [one for one in sources if one == name or one.rsplit(".", 1)[0] == name]
            named.update(fitting)
            if not fitting and not tree.exists(f"{folder}/{name.rstrip('/')}"):
                faults.append(f"its table names {name}, which does not exist")
        faults += [f"its table lacks {one}" for one in sorted(set(sources) - named)]
    return faults


def faults_of(tree, path):
    """What is wrong in one file, a line each."""
    text = comments(path, (tree.root / path).read_text(encoding="utf-8", errors="replace"))
    test = path.startswith("tests/") and pathlib.Path(path).suffix in (".py", ".cc", ".h", ".json")
    found = [f"cites {word}, which is not in the repository" for word in ELSEWHERE.findall(text)]
    found += [f"says '{word}'" for word in BANNED.findall(text)]
    if path.endswith(".md"):
        found += link_faults(tree, path, text)
        found += table_faults(tree, path, text)
    if not path.endswith(".json"):
        found += command_faults(tree, text)
        if not test:
            found += path_faults(tree, path, text)
    return [f"{path}: {one}" for one in dict.fromkeys(found)]


def undescribed(paths):
    """Folders with code and without a README."""
    folders = {
        path.rpartition("/")[0]
        for path in paths
        if re.match(rf"(?:{ROOMS})/", path) and pathlib.Path(path).suffix in CODE
    }
    return sorted(folder for folder in folders if f"{folder}/README.md" not in paths)


def readable(path):
    ignored = path.startswith(
        ("reports/results/", "reports/inputs/declaration", "reports/inputs/constitution")
    ) and not path.endswith("README.md")
    return pathlib.Path(path).suffix in TEXT and path not in MADE_UP and not ignored and not path.startswith("LICENSE")


def machine_folders(text):
    """Absolute paths in the command that made a result file."""
    command = re.search(r'^ *"command": "(.*)"', text, re.MULTILINE)
    return re.findall(r"(?<=[ =])/[^ ]+", command.group(1)) if command else []


class Text(unittest.TestCase):
    def setUp(self):
        self.tree = Tree(ROOT, PROGRAM)

    def test_the_tree(self):
        self.maxDiff = None
        self.assertEqual(
            [], [fault for path in self.tree.paths if readable(path) for fault in faults_of(self.tree, path)]
        )

    def test_every_folder_says_what_it_is(self):
        self.assertEqual([], undescribed(self.tree.paths))
        lacking = [path for path in self.tree.paths if path != "harness/cases/README.md"]
        self.assertEqual(["harness/cases"], undescribed(lacking))

    def test_results_name_no_folder_of_the_machine(self):
        paths = [path for path in self.tree.paths if path.startswith("reports/results/") and path.endswith(".json")]
        self.assertGreater(len(paths), 10)
        commands = {path: machine_folders((ROOT / path).read_text(encoding="utf-8")) for path in paths}
        self.assertEqual([], [(path, found) for path, found in commands.items() if found])
        self.assertEqual(["/tmp/x"], machine_folders('"command": "subquad study all --out /tmp/x",'))

    def test_planted_faults_are_found(self):
        planted = {
            "optimized/gone.cc has it": "optimized/gone.cc does not exist",
            "as in harness/{base,gone}/npy.cc": "harness/gone/npy.cc does not exist",
            "// see gone_kernel.h for why": "gone_kernel.h does not exist",
            "    python3 -m reports.gone --out x": "there is no python3 -m reports.gone",
            "    python3 -m reports.figures --gone x": "reports.figures has no option --gone",
            "    ./run-sweeps gone": "there is no recipe gone",
            "    ./run-tests -L gone": "no test has the label gone",
            "    cmake --preset gone": "there is no preset gone",
            "    ctest --preset paper": "there is no preset paper",
            "SPEC section 6": "SPEC",
            "a row of CLAIMS.md": "CLAIMS.md",
            "It is the same to the bit.": "to the bit",
        }
        if PROGRAM:
            planted |= {
                "    build/subquad verify --gone 1": "subquad verify has no option --gone",
                "    build/subquad gone --n 1": "there is no subquad gone",
                "    build/subquad sweep --preset gone --out x": "there is no preset gone",
            }
        for text, expected in planted.items():
            with self.subTest(text):
                found = (
                    path_faults(self.tree, "a.md", text)
                    + command_faults(self.tree, text)
                    + ELSEWHERE.findall(text)
                    + BANNED.findall(text)
                )
                self.assertEqual([expected], found)
        for text, expected in (
            ("[x](gone.md)", "the link gone.md leads nowhere"),
            ("[x](CONTRIBUTING.md#gone)", "the link CONTRIBUTING.md#gone leads to no heading"),
        ):
            self.assertEqual([expected], link_faults(self.tree, "README.md", text))
        path = "optimized/softmax/README.md"
        whole = (ROOT / path).read_text(encoding="utf-8")
        self.assertEqual([], table_faults(self.tree, path, whole))
        lacking = re.sub(r"\| `softmax_tiles`.*\n", "", whole)
        self.assertEqual(
            ["its table lacks softmax_tiles.cc", "its table lacks softmax_tiles.h"],
            table_faults(self.tree, path, lacking),
        )
        wrong = whole.replace("`reduced_keys`", "`reduced_keys`, `gone`")
        self.assertEqual(["its table names gone, which does not exist"], table_faults(self.tree, path, wrong))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
