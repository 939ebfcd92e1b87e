#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/compare_dumps.py with small dumps, in the format of tensor_dump.cpp."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "compare_dumps.py"
NAN = float("nan")


def text(value):
    return struct.pack("<H", len(value)) + value.encode()


def event(number, when, op="", reason=""):
    return b"E" + struct.pack("<IB", number, when) + text(op) + text(reason)


def tensor(number, values, form="f", dtype="fp32"):
    data = struct.pack(f"<{len(values)}{form}", *values)
    head = struct.pack("<I", number) + text(dtype) + struct.pack("<BqQI", 1, len(values), zlib.crc32(data), 1)
    return b"V" + head + data


def dump(results, reason="", name="Ops/Scale/cuda_fp32", **kind):
    """A test that gives an op the values 1 to 4; what the op and the one after it write."""
    records = b"T" + text(name) + event(0, 0, "scale") + tensor(1, [1, 2, 3, 4])
    records += event(1, 1, "scale", reason) + tensor(2, results, **kind)
    return records + event(2, 0, "add") + event(3, 1, "add") + tensor(3, results, **kind) + event(4, 2) + b"F"


def compare(hardware, paper):
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("hardware", "paper")]
        for file, content in zip(files, (hardware, paper)):
            file.write_bytes(content)
        return subprocess.run([sys.executable, TOOL, *files], capture_output=True, text=True)


class CompareDumps(unittest.TestCase):
    def agree(self, hardware, paper):
        result = compare(hardware, paper)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def differ(self, hardware, paper, *words):
        result = compare(hardware, paper)
        self.assertEqual((result.returncode, result.stderr), (1, ""), result.stdout)
        for word in words:
            self.assertIn(word, result.stdout)

    def test_same_bits_agree(self):
        self.assertIn("exact: 1 agree", self.agree(dump([1, 2, 3, 4]), dump([1, 2, 3, 4])))

    def test_an_exact_op_must_give_the_same_bits(self):
        self.differ(dump([1, 2, 3, 4]), dump([1, 2, 3, 4.0000005]), "scale (event 1): exact, tensor 2 fp32(4)",
                    "1 of 4 elements, up to 1 ulps", "first at 3")

    def test_what_follows_a_difference_need_not(self):
        self.assertIn("follows a difference: 1 different",
                      self.agree(dump([1, 2, 3, 4]), dump([1, 2, 3, 4.0000005], "ex2")))

    def test_what_follows_a_result_that_is_not_in_the_dumps_need_not(self):
        def with_scratch(value):
            return dump([1])[:-len(event(4, 2) + b"F")] + event(4, 1, "mma", "mma") + event(5, 1, "add") + tensor(
                4, [value]) + event(6, 2) + b"F"
        self.assertIn("follows a difference: 1 different", self.agree(with_scratch(4), with_scratch(4.0000005)))

    def test_what_the_host_has_not_written_may_differ(self):
        def with_poison(bits):
            return b"T" + text("Ops/Copy/cuda_bf16") + event(0, 0, "copy") + tensor(
                1, [0x3f80, bits], form="H", dtype="bf16") + event(1, 1, "copy") + tensor(2, [1]) + event(2, 2) + b"F"
        self.agree(with_poison(0x7fc1), with_poison(0x7fc2))
        self.differ(with_poison(0x3f80), with_poison(0x3f81), "of the host, tensor 1")

    def test_an_inexact_op_has_a_tolerance(self):
        self.differ(dump([1, 2, 3, 4]), dump([1, 2, 3, 4.1], "ex2"), "inexact, tensor 2", "(ex2)")

    def test_other_tensors_are_exact_again(self):
        first, second = [1, 2, 3, 4], [1, 2, 3, 4.0000005]
        then = b"R" + struct.pack("<I", 2) + b"R" + struct.pack("<I", 3)
        rest = [then + event(4, 1, "copy") + tensor(4, [value]) + event(5, 2) + b"F" for value in (1, 2)]
        begin = [dump(values, "ex2")[:-len(event(4, 2) + b"F")] for values in (first, second)]
        self.differ(begin[0] + rest[0], begin[1] + rest[1], "copy (event 4): exact, tensor 4")

    def test_zeros_of_other_sign_are_named(self):
        self.differ(dump([0.0]), dump([-0.0]), "up to 0 ulps", "1 zeros with the other sign")

    def test_nan_must_be_at_the_same_places(self):
        self.differ(dump([1, NAN, 3]), dump([1, 2, 3], "ex2"), "NaN at other places")

    def test_narrow_types_have_ulps_of_their_own(self):
        bf16 = {"form": "H", "dtype": "bf16"}
        self.differ(dump([0x3f80, 0xbf80], **bf16), dump([0x3f81, 0xbf80], **bf16), "up to 1 ulps, relative 0.0055")

    def test_a_test_that_broke_off_differs(self):
        whole = dump([1, 2, 3, 4])
        self.differ(whole, whole[:-1], "events on hardware")
        self.differ(whole, whole[:-9], "events on hardware")

    def test_another_way_differs(self):
        whole = dump([1, 2, 3, 4])
        self.differ(whole, whole.replace(text("add"), text("sub")), "another way")

    def test_nothing_compared_does_not_pass(self):
        self.differ(dump([1]), dump([1], name="Ops/Other/cuda_fp32"), "checked nothing", "on paper alone: Ops/Other")


if __name__ == "__main__":
    unittest.main()
