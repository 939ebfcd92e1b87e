#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_headers.py BUILD: checks that each header of src and cli compiles on its own, with the flags of that build. A
header that its own source includes first was compiled on its own by the build, and is not compiled again. Headers that
need CUDA's are left out, visibly, where the build has no CUDA."""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NEEDS_CUDA = re.compile(r"fatal error: (cuda|cublas|cudnn|nvml|nv)\w*\.h: No such file")


def compile_commands(build):
    """The arguments for each C++ source of the build."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return {Path(entry["file"]): shlex.split(entry["command"]) for entry in entries if entry["file"].endswith(".cpp")}


def preprocessor_flags(arguments):
    """What a command says about language, target, macros and folders, but not about precompiled headers."""
    flags, rest = [], iter(arguments)
    for argument in rest:
        if argument == "-isystem":
            flags += [argument, next(rest)]
        elif argument.startswith(("-I", "-D", "-std", "-m")):
            flags.append(argument)
    return flags


def compiler(arguments):
    return next(argument for argument in arguments if re.search(r"(c\+\+|g\+\+|clang\+\+)(-\d+)?$", argument))


def first_include(source):
    match = re.search(r'^#include ["<](.*)[">]', source.read_text(), re.MULTILINE)
    return match[1] if match else ""


def is_proved(header, commands):
    source = header.with_suffix(".cpp")
    arguments = commands.get(source)
    if arguments is None or any("cmake_pch" in argument for argument in arguments):
        return False
    name = first_include(source)
    return name == header.name or str(header).endswith("/" + name) and "/" in name


def syntax_errors(header, arguments):
    # Without warnings: GCC has one for a #pragma once in the file that it was given.
    command = [compiler(arguments), *preprocessor_flags(arguments), "-fsyntax-only", "-w", "-x", "c++", str(header)]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.stderr if run.returncode else ""


def main():
    root, build = Path(__file__).resolve().parent.parent, Path(sys.argv[1]).resolve()
    commands = compile_commands(build)
    headers = sorted([*(root / "src").rglob("*.h"), *(root / "cli").rglob("*.h")])
    alone = [header for header in headers if not is_proved(header, commands)]
    arguments = commands[root / "src/core/arena.cpp"]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        errors = list(pool.map(lambda header: syntax_errors(header, arguments), alone))
    skipped = [header for header, error in zip(alone, errors) if NEEDS_CUDA.search(error)]
    wrong = [error for header, error in zip(alone, errors) if error and header not in skipped]
    print("".join(wrong), end="")
    for header in skipped:
        print(f"not checked, it needs CUDA's headers: {header.relative_to(root)}")
    print(f"{len(headers)} headers: {len(headers) - len(alone)} are included first by their own source, "
          f"{len(alone) - len(wrong) - len(skipped)} compile on their own, {len(wrong)} do not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
