#!/usr/bin/env python3
"""Tests the machine code of the softmax kernels: python3 tests/machine_code_test.py BUILD

A kernel must not spill registers to memory, must not need more registers than its launch bounds allow, and must multiply with the
intended instruction. Reads the objects of BUILD with cuobjdump. Without cuobjdump or without these objects, that part is skipped (exit
status 77), and only the parsing of cuobjdump's output is tested.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

OBJECTS = ""  # set by main
SKIPPED = 77
REGISTERS = 65536  # of a multiprocessor


@dataclasses.dataclass
class Expected:
    """Requirements on all kernels of an object whose mangled names contain `kernel`."""

    source: str
    kernel: str
    blocks: int  # blocks of 128 threads that share a multiprocessor
    instructions: tuple

    @property
    def registers(self):
        return min(255, REGISTERS // (128 * self.blocks) // 8 * 8)


TENSOR_CORES = ("HMMA.16816.F32", "LDSM")
EXPECTED = [
    Expected("softmax_fragments", "ExtentsILi64ELi64ELi2E", 2, TENSOR_CORES),
    Expected("softmax_fragments", "ExtentsILi64ELi64ELi1E", 3, TENSOR_CORES),
    Expected("softmax_fragments", "ExtentsILi128ELi128ELi1E", 2, TENSOR_CORES),
    Expected("few_queries", "AttendByQuery", 4, ("FFMA",)),
    Expected("few_queries", "Lb1EE", 4, ("LDG.E.128",)),  # rows that are read as a whole
    Expected("softmax_partials", "Merge", 4, ("FFMA",)),
]


@dataclasses.dataclass
class Kernel:
    registers: int
    stack: int
    instructions: set


def kernels_of(usage, code):
    """Parses the output of cuobjdump with --dump-resource-usage and with --dump-sass into {mangled name: Kernel}."""
    kernels = {}
    for name, registers, stack, local in re.findall(
        r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage
    ):
        kernels[name] = Kernel(int(registers), int(stack) + int(local), set())
    for part in code.split("Function : ")[1:]:
        name, _, body = part.partition("\n")
        instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9._]*)", body)
        kernels[name.strip()].instructions.update(instructions)
    return kernels


def complaints(expected, kernels):
    """Yields a sentence for each violated requirement."""
    chosen = {name: kernel for name, kernel in kernels.items() if expected.kernel in name}
    if not chosen:
        yield f"{expected.source}: expected kernels of {expected.kernel}, found none"
    for name, kernel in chosen.items():
        if kernel.stack or any(text.startswith(("LDL", "STL")) for text in kernel.instructions):
            yield f"{name}: expected all values in registers, found a stack of {kernel.stack} bytes"
        if kernel.registers > expected.registers:
            yield f"{name}: expected at most {expected.registers} registers, found {kernel.registers}"
        for wanted in expected.instructions:
            if not any(text.startswith(wanted) for text in kernel.instructions):
                yield f"{name}: expected the instruction {wanted}, found none"


def find_cuobjdump():
    """Returns the path of cuobjdump, from PATH or beside nvcc, or None if it or nvdisasm, which it needs, is missing."""
    nvcc = shutil.which("nvcc")
    near = nvcc and os.fspath(pathlib.Path(nvcc).resolve().parent)
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), near)))
    return shutil.which("nvdisasm", path=path) and shutil.which("cuobjdump", path=path)


def object_of(source):
    objects = sorted(pathlib.Path(OBJECTS).glob(f"CMakeFiles/subquad_cuda.dir/**/{source}.cu.o"))
    return objects[0] if objects else None


def why_not():
    """Returns the reason why machine code cannot be read, or an empty string."""
    if not object_of("softmax_fragments"):
        return f"{OBJECTS} has no kernels that nvcc compiled"
    return "" if find_cuobjdump() else "there is no cuobjdump with nvdisasm (parts of the CUDA Toolkit, found by PATH)"


def kernels_in(source):
    def printed(option):
        return subprocess.run(
            [find_cuobjdump(), option, object_of(source)], capture_output=True, text=True, check=True
        ).stdout

    return kernels_of(printed("--dump-resource-usage"), printed("--dump-sass"))


class MachineCodeTest(unittest.TestCase):
    def setUp(self):
        if why_not():
            self.skipTest(why_not())
        self.kernels = {source: kernels_in(source) for source in {expected.source for expected in EXPECTED}}

    def test_kernels_are_as_expected(self):
        for expected in EXPECTED:
            self.assertEqual([], list(complaints(expected, self.kernels[expected.source])))

    def test_every_kernel_of_the_fragments_is_expected(self):
        for name in self.kernels["softmax_fragments"]:
            self.assertTrue(any(expected.kernel in name for expected in EXPECTED), name)

    def test_wrong_expectations_are_found(self):
        expected = EXPECTED[0]
        for planted, words in ((dataclasses.replace(expected, blocks=3), "at most 168 registers"),
                               (dataclasses.replace(expected, instructions=("HGMMA",)), "the instruction HGMMA"),
                               (dataclasses.replace(expected, kernel="ExtentsILi32E"), "found none")):  # fmt: skip
            sentences = list(complaints(planted, self.kernels[expected.source]))
            self.assertTrue(sentences)
            self.assertIn(words, sentences[0])


USAGE = """
 Function _Z6SpillsPf:
  REG:255 STACK:76 SHARED:0 LOCAL:0 CONSTANT[0]:548 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z5CleanPf:
  REG:128 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:548 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
CODE = """
\t\tFunction : _Z6SpillsPf
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
        /*0010*/                   STL [R1+0x4], R3 ;          /* 0x0000040301007387 */
\t\tFunction : _Z5CleanPf
        /*0000*/              @!P0 HMMA.16816.F32.BF16 R4, R8, R2, R4 ; /* 0x000000020804723c */
"""


class ReadingTest(unittest.TestCase):
    """Parses made-up text in the format of cuobjdump."""

    def test_a_clean_kernel_passes(self):
        clean = Expected("made_up", "Clean", 4, ("HMMA.16816.F32",))
        self.assertEqual([], list(complaints(clean, kernels_of(USAGE, CODE))))

    def test_faults_are_found(self):
        sentences = list(complaints(Expected("made_up", "Spills", 2, ("HMMA",)), kernels_of(USAGE, CODE)))
        self.assertEqual(2, len(sentences))
        self.assertIn("a stack of 76 bytes", sentences[0])
        self.assertIn("the instruction HMMA", sentences[1])
        sentences = list(complaints(Expected("made_up", "Clean", 5, ()), kernels_of(USAGE, CODE)))
        self.assertIn("at most 96 registers, found 128", sentences[0])
        # The instructions reveal a stack too.
        no_stack = kernels_of(USAGE.replace("STACK:76", "STACK:0"), CODE)
        self.assertEqual(1, len(list(complaints(Expected("made_up", "Spills", 2, ()), no_stack))))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"expected {sys.argv[0]} BUILD, found {len(sys.argv) - 1} arguments")
    OBJECTS = sys.argv.pop()
    done = unittest.main(exit=False)
    if not done.result.wasSuccessful():
        sys.exit(1)
    if why_not():
        print(f"machine_code_test.py: skipped: {why_not()}", file=sys.stderr)
        sys.exit(SKIPPED)
