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
MADE_UP = {"tests/text_test.py", "tests/layout_test.py"}  # contain names of files that do not exist, on purpose
PRESETS = {"paper", "gpu"}  # combinations of recipes
GENERATED = {"embedded.cc", "build_info.cc", "highway.h", "kernel.py"}  # by the build; of a library; of users
# Documents that are not in the repository.
ELSEWHERE = re.compile(r"\bSPEC(?:\.md)?\b|\b(?:CLAIMS|DESIGN|STYLE)\.md\b")


def tracked(root):
    """Returns the files that git tracks or would add; in an archive of the sources, all files that do not look like a
    build.
    """
    run = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=False
    )
    paths = run.stdout.splitlines()
    if run.returncode:
        untracked = (path.relative_to(root) for path in root.rglob("*"))
        paths = sorted(str(path) for path in untracked if not re.match(r"build|.*\b__pycache__\b", str(path)))
    return [path for path in paths if (root / path).is_file()]


def comments(path, text):
    """Returns comments and quoted texts: the code without the parts that only a compiler reads. Line numbers do not
    change.
    """
    if pathlib.Path(path).suffix in (".h", ".cc", ".cu"):
        return re.sub(r"^#include.*$", "", text, flags=re.M)
    return text


class Tree:
    """The files, recipes, presets, labels and options that exist."""

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
            {preset["name"] for preset in json.loads(cmake.read_text())["configurePresets"]}
            if cmake.exists()
            else set()
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
        """Returns the options and words of a command's help, or None if there is no such command."""
        if command not in self.helps:
            run = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, cwd=ROOT)
            self.helps[command] = set(re.findall(r"[\w-]+", run.stdout)) if run.returncode == 0 else None
        return self.helps[command]


def expanded(word):
    """Expands `a/{b,c}.h` to its parts."""
    match = re.search(r"\{([^{}]*)\}", word)
    if not match:
        return [word]
    return [
        name for part in match[1].split(",") for name in expanded(word[: match.start()] + part + word[match.end() :])
    ]


def placeholder(word):
    """True if a part of the word is a placeholder: MACHINE, NAME, X."""
    return bool(re.search(r"(?:^|[/_.*-])[A-Z]{1,}(?:$|[/_.*-])", word)) or "<" in word or "$" in word


def path_faults(tree, path, text):
    """Finds paths that exist neither in the repository nor in the file's own folder."""
    own = path.rpartition("/")[0]
    faults = []
    for match in re.finditer(rf"(?<![\w./$}}-])(?:{ROOMS})/[\w./*{{}},-]*", text):
        word = match[0].rstrip(".,/-")
        if "," in word and "{" not in word:
            word = word.split(",")[0]
        for name in expanded(word):
            name = name.rstrip("/")
            if not (
                placeholder(name)
                or tree.exists(name)
                or tree.exists(f"{own}/{name}")
                or name.startswith("tests/subquad_")
            ):
                faults.append(f"{name} does not exist")
    for match in re.finditer(r"(?<![\w./*{}<>\"-])(\w+(?:-inl)?\.(?:h|cc|cu|py))\b(?!\()", text):
        if match[1] not in tree.basenames | GENERATED and not placeholder(match[1]):
            faults.append(f"{match[1]} does not exist")
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
        for tail in re.findall(r"(?:build/|`|(?<!-m)\s)subquad (?=[a-z-])([^`|#;)]*)", line) if tree.program else []:
            faults += subquad_faults(tree, tail)
        for command, tail in re.findall(r"-m subquad ([a-z]+)([^`|#;)]*)", line):
            main = (tree.root / "harness/python/subquad/__main__.py").read_text(encoding="utf-8")
            if f'add_parser("{command}"' not in main:
                faults.append(f"there is no python3 -m subquad {command}")
            faults += [
                f"python3 -m subquad has no option {option}"
                for option in re.findall(r" (--[a-z-]+)", tail)
                if f'"{option}"' not in main
            ]
        for module, tail in re.findall(r"python3 -m (reports\.\w+)([^`|#;)]*)", line):
            known = tree.options((sys.executable, "-m", module))
            if known is None:
                faults.append(f"there is no python3 -m {module}")
                continue
            faults += [
                f"{module} has no option {option}"
                for option in re.findall(r" (--[a-z-]+)", tail)
                if option not in known
            ]
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
    return [
        f"subquad {command} has no option {option}"
        for option in re.findall(r" (--[a-z-]+)", tail)
        if option not in known
    ]


def table_faults(tree, path, text):
    """Checks that a table of files names every source of its folder, and nothing else."""
    folder, _, _ = path.rpartition("/")
    if not folder:
        return []
    faults = []
    for table in re.findall(r"^\| files? \|.*\n\|[-| ]+\n((?:\|.*\n?)+)", text, re.M):
        names = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
        sources = [path.rsplit("/", 1)[-1] for path in tree.paths
                   if path.rsplit("/", 1)[0] == folder and pathlib.Path(path).suffix in CODE | {".json"}]  # fmt: skip
        sources = [source for source in sources if source != "__init__.py"]
        named = set()
        for name in names:
            fitting = [source for source in sources if source == name or source.rsplit(".", 1)[0] == name]
            named.update(fitting)
            if not fitting and not tree.exists(f"{folder}/{name.rstrip('/')}"):
                faults.append(f"its table names {name}, which does not exist")
        faults += [f"its table lacks {source}" for source in sorted(set(sources) - named)]
    return faults


def faults_of(tree, path):
    """Returns the faults of one file, one line each."""
    text = comments(path, (tree.root / path).read_text(encoding="utf-8", errors="replace"))
    test = path.startswith("tests/") and pathlib.Path(path).suffix in (".py", ".cc", ".h", ".json")
    faults = [f"cites {word}, which is not in the repository" for word in ELSEWHERE.findall(text)]
    if path.endswith(".md"):
        faults += link_faults(tree, path, text)
        faults += table_faults(tree, path, text)
    if not path.endswith(".json"):
        faults += command_faults(tree, text)
        if not test:
            faults += path_faults(tree, path, text)
    return [f"{path}: {fault}" for fault in dict.fromkeys(faults)]


def undescribed(paths):
    """Returns folders with code and without a README."""
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
    """Returns absolute paths in the command that made a result file."""
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
        self.assertEqual([], [(path, command) for path, command in commands.items() if command])
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
            "    python3 -m subquad gone X": "there is no python3 -m subquad gone",
            "    python3 -m subquad verify --gone": "python3 -m subquad has no option --gone",
            "SPEC section 6": "SPEC",
            "a row of CLAIMS.md": "CLAIMS.md",
        }
        if PROGRAM:
            planted |= {
                "    build/subquad verify --gone 1": "subquad verify has no option --gone",
                "    build/subquad gone --n 1": "there is no subquad gone",
                "    build/subquad sweep --preset gone --out x": "there is no preset gone",
            }
        for text, expected in planted.items():
            with self.subTest(text):
                faults = (
                    path_faults(self.tree, "a.md", text) + command_faults(self.tree, text) + ELSEWHERE.findall(text)
                )
                self.assertEqual([expected], faults)
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
