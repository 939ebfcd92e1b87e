#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every op has a death test: that tests/ops/contracts holds a test named after it that breaks its contract.
An op is a function of a header in src/ops that takes an ExecContext first and returns nothing; its front is the source
of the same name. Prints the ops without a test, and tests without an op, and exits 1."""
import re
import sys
from pathlib import Path

# Per-device templates and their specialisations are no fronts: they follow a line that begins with "template".
OP = re.compile(r"^(template.*\n)?void (\w+)\(ExecContext& ctx\b", re.MULTILINE)
TEST = re.compile(r"^TEST_F\(OpContracts, (\w+)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def op_names(root):
    names = {}
    for header in sorted((root / "src/ops").rglob("*.h")):
        if not header.with_suffix(".cpp").exists():
            continue
        for template, name in OP.findall(header.read_text()):
            if not template:
                names[name] = header.relative_to(root)
    return names


def tested_ops(root):
    names = set()
    for source in (root / "tests/ops/contracts").glob("*.cpp"):
        names |= {name for name, body in TEST.findall(source.read_text()) if "expect_refused(" in body}
    return names


def camel_case(name):
    return "".join(part.capitalize() for part in name.split("_"))


def main():
    root = Path(__file__).resolve().parent.parent
    ops, tests = op_names(root), tested_ops(root)
    expected = {camel_case(name): f"{header}: {name}" for name, header in ops.items()}
    wrong = [f"{expected[name]} has no TEST_F(OpContracts, {name}) in tests/ops/contracts that calls expect_refused"
             for name in sorted(expected.keys() - tests)]
    wrong += [f"tests/ops/contracts: {name} is not named after an op" for name in sorted(tests - expected.keys())]
    print("\n".join(wrong) if wrong else f"all {len(ops)} ops have a death test")
    return 1 if wrong or not ops else 0


if __name__ == "__main__":
    sys.exit(main())
