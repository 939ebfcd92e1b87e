#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/paper_coverage.py."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLOAT, INT = "f", "i"


def mangled(build, type_code):
    """An instantiation of constant_kernel as nvcc names it in one of its builds."""
    namespace = f"_GLOBAL__N__{build}_17_embedding_cuda_cu_b050f0ff_6051"
    return f"_ZN8gradmill{len(namespace)}{namespace}15constant_kernelI{type_code}EEvPT_l"


class PaperCoverage(unittest.TestCase):
    def report(self, lines, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            done = subprocess.run([sys.executable, str(ROOT / "tools/paper_coverage.py"), file.name, *options],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def lines(self, ran):
        there = [mangled(build, code) for build in ("604e7fca", "11111111") for code in (FLOAT, INT)]
        return [f"h200 is-there {name}" for name in there] + [f"h200 ran {mangled('604e7fca', code)}" for code in ran]

    def test_builds_are_joined_and_instantiations_counted(self):
        code, said = self.report(self.lines([FLOAT]), "--missing")
        self.assertEqual(code, 0)
        self.assertIn("| constant_kernel | 2 | 1 |", said)
        self.assertIn("constant_kernel<int>", said)
        self.assertNotIn("constant_kernel<float>", said)

    def test_what_was_never_run_is_an_error(self):
        code, said = self.report(self.lines([]))
        self.assertEqual(code, 1)
        self.assertIn("1 kernels, 1 never executed; 2 instantiations, 2 never executed", said)


if __name__ == "__main__":
    unittest.main()
