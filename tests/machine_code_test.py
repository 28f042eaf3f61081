#!/usr/bin/env python3
"""Tests what the CUDA compiler made of the softmax kernels: python3 tests/machine_code_test.py BUILD

A kernel may keep nothing on a stack in slow memory, needs no more registers than its launch bounds leave it, and multiplies with the
instruction that it was written for. Reads the objects of BUILD with cuobjdump; without cuobjdump or without these objects that part is
skipped (exit status 77), and the reading of what cuobjdump prints is tested all the same.
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
    """What is expected of all kernels of an object whose mangled names hold a text."""

    source: str
    kernel: str
    blocks: int  # of 128 threads that share a multiprocessor
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
    """{mangled name: Kernel} from what cuobjdump prints with --dump-resource-usage and with --dump-sass."""
    found = {}
    for name, registers, stack, local in re.findall(
        r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage
    ):
        found[name] = Kernel(int(registers), int(stack) + int(local), set())
    for part in code.split("Function : ")[1:]:
        name, _, body = part.partition("\n")
        instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9._]*)", body)
        found[name.strip()].instructions.update(instructions)
    return found


def complaints(expected, kernels):
    """What is not as it should be, a sentence for each."""
    chosen = {name: kernel for name, kernel in kernels.items() if expected.kernel in name}
    if not chosen:
        yield f"{expected.source}: expected kernels of {expected.kernel}, found none"
    for name, kernel in chosen.items():
        if kernel.stack or any(one.startswith(("LDL", "STL")) for one in kernel.instructions):
            yield f"{name}: expected all numbers in registers, found a stack of {kernel.stack} bytes"
        if kernel.registers > expected.registers:
            yield f"{name}: expected at most {expected.registers} registers, found {kernel.registers}"
        for wanted in expected.instructions:
            if not any(one.startswith(wanted) for one in kernel.instructions):
                yield f"{name}: expected the instruction {wanted}, found none"


def find_cuobjdump():
    """In PATH or beside nvcc; None unless nvdisasm, which it needs, is there too."""
    nvcc = shutil.which("nvcc")
    near = nvcc and os.fspath(pathlib.Path(nvcc).resolve().parent)
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), near)))
    return shutil.which("nvdisasm", path=path) and shutil.which("cuobjdump", path=path)


def object_of(source):
    found = sorted(pathlib.Path(OBJECTS).glob(f"CMakeFiles/subquad_cuda.dir/**/{source}.cu.o"))
    return found[0] if found else None


def why_not():
    """Why no machine code can be read; empty if it can."""
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
        self.kernels = {source: kernels_in(source) for source in {one.source for one in EXPECTED}}

    def test_kernels_are_as_expected(self):
        for one in EXPECTED:
            self.assertEqual([], list(complaints(one, self.kernels[one.source])))

    def test_every_kernel_of_the_fragments_is_expected(self):
        for name in self.kernels["softmax_fragments"]:
            self.assertTrue(any(one.kernel in name for one in EXPECTED), name)

    def test_wrong_expectations_are_found(self):
        one = EXPECTED[0]
        for planted, words in ((dataclasses.replace(one, blocks=3), "at most 168 registers"),
                               (dataclasses.replace(one, instructions=("HGMMA",)), "the instruction HGMMA"),
                               (dataclasses.replace(one, kernel="ExtentsILi32E"), "found none")):  # fmt: skip
            found = list(complaints(planted, self.kernels[one.source]))
            self.assertTrue(found)
            self.assertIn(words, found[0])


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
    """Of text that was made up, as cuobjdump prints it."""

    def test_a_clean_kernel_passes(self):
        clean = Expected("made_up", "Clean", 4, ("HMMA.16816.F32",))
        self.assertEqual([], list(complaints(clean, kernels_of(USAGE, CODE))))

    def test_faults_are_found(self):
        found = list(complaints(Expected("made_up", "Spills", 2, ("HMMA",)), kernels_of(USAGE, CODE)))
        self.assertEqual(2, len(found))
        self.assertIn("a stack of 76 bytes", found[0])
        self.assertIn("the instruction HMMA", found[1])
        found = list(complaints(Expected("made_up", "Clean", 5, ()), kernels_of(USAGE, CODE)))
        self.assertIn("at most 96 registers, found 128", found[0])
        # A stack shows in the instructions too.
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
