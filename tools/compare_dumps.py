#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_dumps.py HARDWARE PAPER: compares the dumps of op tests on a GPU with those on the paper GPU.

Each argument is a file written with GRADMILL_TEST_DUMP, or a folder of such files. The paper GPU knows which ops
consist only of instructions whose bits are exact. Such an op must give the same bits if its tensors were equal before.
Other ops, and ops after a difference, must agree within a tolerance. Exits 1 on a difference that is not allowed, or
if nothing was compared.
"""

import argparse
import collections
import dataclasses
import math
import pathlib
import struct
import sys

# Inexact results pass if every element is within this number of ulps, or if ‖difference‖ <= norm * ‖paper‖.
TOLERANCES = {"fp32": (16, 1e-4), "bf16": (1, 4e-3), "fp16": (2, 1e-3), "fp8_e4m3": (1, 3e-2), "fp8_e5m2": (1, 6e-2),
              "int8": (1, 0), "int32": (0, 0)}
FLOATS = {"fp32": (8, 23), "bf16": (8, 7), "fp16": (5, 10), "fp8_e4m3": (4, 3), "fp8_e5m2": (5, 2)}  # exponent, mantissa
SIZES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1, "int32": 4}
HOST, OP, END = range(3)  # the writer: the host before an op, an op, or any code after the last op
BUCKETS = (0, 1, 2, 4, 16, 256, 65536)


@dataclasses.dataclass
class Tensor:
    number: int
    dtype: str
    shape: tuple
    digest: int
    stride: int
    bytes: memoryview

    def name(self):
        return f"tensor {self.number} {self.dtype}({', '.join(map(str, self.shape))})"


@dataclasses.dataclass
class Event:
    number: int
    when: int
    op: str
    reason: str
    released: list
    tensors: dict


@dataclasses.dataclass
class Difference:
    different: int  # number of elements in the dumps that differ
    looked_at: int
    ulps: int
    norm: float
    first: int
    nans: bool  # at different positions
    zeros: int  # with different signs

    def within(self, dtype):
        ulps, norm = TOLERANCES[dtype]
        return not self.nans and (self.ulps <= ulps or self.norm <= norm)

    def is_unwritten(self):
        """Whether the only differing bits may be those of unwritten memory."""
        return self.ulps == 0 and self.zeros == 0 and not self.nans

    def text(self):
        if self.different == 0:
            return "only elements that are not in the dumps differ"
        parts = [f"{self.different} of {self.looked_at} elements, up to {self.ulps} ulps, relative {self.norm:.2g}, "
                 f"first at {self.first}"]
        if self.nans:
            parts.append("NaN at other places")
        if self.zeros:
            parts.append(f"{self.zeros} zeros with the other sign")
        return ", ".join(parts)


@dataclasses.dataclass
class Test:
    name: str
    events: list
    finished: bool = False


class Reader:
    """Reads the tests of one file."""

    def __init__(self, path):
        self.path = path
        self.bytes = memoryview(path.read_bytes())
        self.at = 0

    def number(self, form):
        value, = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.number("H")
        self.at += size
        return bytes(self.bytes[self.at - size:self.at]).decode()

    def tensor(self):
        number, dtype = self.number("I"), self.text()
        shape = tuple(self.number("q") for _ in range(self.number("B")))
        digest, stride = self.number("Q"), self.number("I")
        size = -(-math.prod(shape) // stride) * SIZES[dtype]
        if self.at + size > len(self.bytes):
            raise struct.error("a tensor is not complete")
        self.at += size
        # The first tensor of a test contains the step's scalars, four bytes each.
        if number == 0 and dtype == "int8" and stride == 1 and size % 4 == 0:
            dtype = "fp32"
        return Tensor(number, dtype, shape, digest, stride, self.bytes[self.at - size:self.at])

    def tests(self):
        found, test, released = [], None, []
        try:
            while self.at < len(self.bytes):
                mark = bytes(self.bytes[self.at:self.at + 1])
                self.at += 1
                if mark == b"T":
                    test = Test(self.text(), [])
                    found.append(test)
                    released = []
                elif mark == b"E":
                    test.events.append(Event(self.number("I"), self.number("B"), self.text(), self.text(), released, {}))
                    released = []
                elif mark == b"V":
                    tensor = self.tensor()
                    test.events[-1].tensors[tensor.number] = tensor
                elif mark == b"R":
                    released.append(self.number("I"))
                elif mark == b"F":
                    test.finished = True
                else:
                    sys.exit(f"{self.path}: no record at byte {self.at - 1}")
        except struct.error:
            print(f"{self.path} ends in the middle of a record")
        return found


def read(path):
    """All tests by name."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    tests = [test for file in files for test in Reader(file).tests()]
    by_name = {test.name: test for test in tests}
    if len(by_name) < len(tests):
        print(f"{path} has tests more than once: the last of each counts")
    return by_name


def ordered(bits, dtype):
    """Maps values to integers in the same order: neighbours are one ulp apart."""
    half = 1 << (8 * SIZES[dtype] - 1)
    if dtype not in FLOATS:
        return bits - 2 * half if bits >= half else bits
    return half - bits if bits >= half else bits


def is_nan(bits, dtype):
    if dtype not in FLOATS:
        return False
    exponent, mantissa = FLOATS[dtype]
    magnitude = bits & ((1 << (exponent + mantissa)) - 1)
    if dtype == "fp8_e4m3":  # has no infinity
        return magnitude == 0x7f
    return magnitude > ((1 << exponent) - 1) << mantissa


def value(bits, dtype):
    if dtype not in FLOATS:
        return float(ordered(bits, dtype))
    exponent, mantissa = FLOATS[dtype]
    bias = (1 << (exponent - 1)) - 1
    power, fraction = bits >> mantissa & ((1 << exponent) - 1), bits & ((1 << mantissa) - 1)
    sign = -1.0 if bits >> (exponent + mantissa) else 1.0
    if power == (1 << exponent) - 1 and dtype != "fp8_e4m3":
        return sign * math.inf
    if power == 0:
        return sign * math.ldexp(fraction, 1 - bias - mantissa)
    return sign * math.ldexp(fraction + (1 << mantissa), power - bias - mantissa)


def norm_of_difference(pairs, dtype):
    """Relative to the paper GPU's norm. Infinite if the infinities differ."""
    numbers = [(value(a, dtype), value(b, dtype)) for a, b in pairs]
    finite = [(x, y) for x, y in numbers if math.isfinite(x) and math.isfinite(y)]
    if any(x != y for x, y in numbers if not (math.isfinite(x) and math.isfinite(y))):
        return math.inf
    size, distance = math.hypot(*(y for _, y in finite)), math.hypot(*(x - y for x, y in finite))
    return distance / size if size else math.inf if distance else 0.0


def difference(hardware, paper):
    """None if all bits are equal."""
    if hardware.digest == paper.digest:
        return None
    dtype = paper.dtype
    form = f"<{len(paper.bytes) // SIZES[dtype]}{'-BH-I'[SIZES[dtype]]}"
    all_pairs = list(zip(struct.unpack(form, hardware.bytes), struct.unpack(form, paper.bytes)))
    other = [n for n, (a, b) in enumerate(all_pairs) if a != b]
    nans = [(is_nan(a, dtype), is_nan(b, dtype)) for a, b in all_pairs]
    pairs = [pair for pair, (a, b) in zip(all_pairs, nans) if not a and not b]
    distances = [abs(ordered(a, dtype) - ordered(b, dtype)) for a, b in pairs]
    zeros = sum(1 for (a, b), distance in zip(pairs, distances) if a != b and distance == 0)
    return Difference(len(other), len(all_pairs), max(distances, default=0), norm_of_difference(pairs, dtype),
                      other[0] * paper.stride if other else -1, any(a != b for a, b in nans), zeros)


class Totals:
    def __init__(self):
        self.tests = collections.Counter()     # exact and equal, exact and different, with inexact ops
        self.results = collections.Counter()   # (kind, equal or different)
        self.histogram = collections.Counter()  # (dtype, bucket), of inexact results
        self.norms = collections.defaultdict(float)
        self.reasons = collections.Counter()
        self.wrong = []

    def count(self, dtype, found):
        ulps = 0 if found is None else found.ulps
        bucket = next((limit for limit in BUCKETS if ulps <= limit), "more")
        self.histogram[dtype, bucket] += 1
        if found is not None:
            self.norms[dtype] = max(self.norms[dtype], found.norm)


class Comparison:
    """Compares one test: goes through the ops of both sides and tracks which tensors differ."""

    def __init__(self, name, hardware, paper, totals):
        self.name, self.hardware, self.paper, self.totals = name, hardware, paper, totals
        self.now = [{}, {}]  # tensors by their numbers, on hardware and on paper
        self.differing = set()
        self.unseen = False  # an inexact op has written only to memory that is not in the dumps
        self.exact = True

    def report(self, event, what):
        op = {HOST: f"before {event.op}", OP: event.op, END: "at the end"}[event.when]
        self.totals.wrong.append(f"{self.name}: {op} (event {event.number}): {what}")

    def run(self):
        for one, other in zip(self.hardware.events, self.paper.events):
            if (one.op, one.when) != (other.op, other.when):
                return self.report(other, f"the GPU went another way, to {one.op or 'the end'}")
            for released in one.released + other.released:
                self.differing.discard(released)
            self.event(one, other)
        if len(self.hardware.events) != len(self.paper.events) or not (self.hardware.finished and self.paper.finished):
            last = self.paper.events[-1]
            self.report(last, f"{len(self.hardware.events)} events on hardware, {len(self.paper.events)} on paper")

    def event(self, one, other):
        inexact = bool(other.reason)
        if inexact:
            self.exact = False
            self.totals.reasons[other.reason] += 1
            self.unseen |= not other.tensors
        follows = bool(self.differing) or self.unseen
        must_agree = not inexact and not follows
        kind = "inexact" if inexact else "follows a difference" if follows else "exact"
        if other.when != OP and kind == "exact":
            kind = "of the host"
        self.now[0].update(one.tensors)
        self.now[1].update(other.tensors)
        for number in sorted(one.tensors.keys() | other.tensors.keys()):
            hardware, paper = self.now[0].get(number), self.now[1].get(number)
            if hardware is None or paper is None:
                side = "the GPU" if paper is None else "paper"
                self.report(other, f"{(hardware or paper).name()}: written on {side} alone")
                continue
            self.result(other, kind, must_agree, hardware, paper)

    def result(self, event, kind, must_agree, hardware, paper):
        if (hardware.dtype, hardware.shape) != (paper.dtype, paper.shape):
            return self.report(event, f"{hardware.name()} on the GPU, {paper.name()} on paper")
        found = difference(hardware, paper)
        self.totals.results[kind, "equal" if found is None else "different"] += 1
        if not must_agree:
            self.totals.count(paper.dtype, found)
        if found is None:
            return self.differing.discard(paper.number)
        self.differing.add(paper.number)
        if event.when != OP and found.is_unwritten():
            return
        if must_agree or not found.within(paper.dtype):
            why = f" ({event.reason})" if event.reason else ""
            self.report(event, f"{kind}, {paper.name()}: {found.text()}{why}")


def compare(hardware, paper):
    totals = Totals()
    for name in sorted(hardware.keys() & paper.keys()):
        before = len(totals.wrong)
        one = Comparison(name, hardware[name], paper[name], totals)
        one.run()
        agrees = "agree" if len(totals.wrong) == before else "differ"
        totals.tests["exact" if one.exact else "with inexact ops", agrees] += 1
    return totals


def print_summary(totals, only_hardware, only_paper):
    print(f"\n{sum(totals.tests.values())} tests compared")
    for (kind, agrees), count in sorted(totals.tests.items()):
        print(f"  {kind}: {count} {agrees}")
    print("results (a tensor that an op or the host changed)")
    for (kind, equal), count in sorted(totals.results.items()):
        print(f"  {kind}: {count} {equal}")
    if totals.histogram:
        print("inexact results and what follows them, by their largest difference in ulps up to: "
              + " ".join(map(str, BUCKETS)) + " more")
        for dtype in sorted({dtype for dtype, _ in totals.histogram}):
            counts = " ".join(str(totals.histogram[dtype, bucket]) for bucket in BUCKETS + ("more",))
            print(f"  {dtype}: {counts}; largest relative difference {totals.norms[dtype]:.2g}")
    for side, names in (("hardware", only_hardware), ("paper", only_paper)):
        if names:
            print(f"{len(names)} tests on {side} alone: {', '.join(sorted(names)[:10])}{' ...' if len(names) > 10 else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hardware", type=pathlib.Path)
    parser.add_argument("paper", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=100, help="differences listed (default: %(default)s)")
    parser.add_argument("--reasons", action="store_true", help="also list which instructions and libraries are inexact")
    options = parser.parse_args()
    hardware, paper = read(options.hardware), read(options.paper)
    totals = compare(hardware, paper)
    for line in totals.wrong[:options.most]:
        print(line)
    if len(totals.wrong) > options.most:
        print(f"... and {len(totals.wrong) - options.most} more")
    print_summary(totals, hardware.keys() - paper.keys(), paper.keys() - hardware.keys())
    if options.reasons:
        for reason, count in totals.reasons.most_common():
            print(f"  inexact in {count} ops: {reason}")
    of_ops = sum(count for (kind, _), count in totals.results.items() if kind != "of the host")
    if of_ops == 0:
        print("no result of an op was compared: this checked nothing")
    sys.exit(1 if totals.wrong or of_ops == 0 else 0)


if __name__ == "__main__":
    main()
