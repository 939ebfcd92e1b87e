#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks CUDA kernels on purpose, one at a time, and reports whether the tests on a paper GPU notice.

Each mutation of tests/paper_gpu/mutations/*.txt (the format is in README.md there) is applied to a copy of the file
that it names. The affected kernels are compiled to PTX, and their test runs with these instead of the kernels in the
binary (PAPER_PTX). Mutations of host code are compiled to an object, with which the test is relinked. A mutation
is caught if the test then fails: by a finding of the paper GPU's checks, by a comparison of values, by a crash, or by
running out of time. Each test must first pass unchanged.

  tools/mutate_kernels.py --check                      checks that all texts are found; compiles and runs nothing
  tools/mutate_kernels.py --compile 'norm-*'           checks that these compile
  tools/mutate_kernels.py --out mutations.md           the whole study, with the tests of build-paper-all

Exit status: 0, or 1 if fewer than 95% are caught or if one is missed of a kind that the checks must find, or 2 if the
study could not be made.
"""
import argparse
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTATIONS = ROOT / "tests/paper_gpu/mutations"
TARGETS = {"t4": "75", "a100": "80", "rtx3090": "80", "rtx4080": "80", "h100": "90a", "h200": "90a", "b200": "80",
           "rtx5090": "120a"}
# Kinds, and whether missing one of them fails the study.
KINDS = {"barrier": True, "fence": True, "index": True, "short": True, "phase": True, "start": False, "layout": False,
         "rounding": False, "scale": False, "edge": False, "blocks": True, "alignment": True, "hardware": True}
# equivalent: no test can detect it. unseen: a bug that the tests or this GPU cannot reveal, with the reason in its note.
EXPECTATIONS = ("caught", "equivalent", "unseen")
LEAST_SHARE = 0.95
# unmade: it does not compile, or its unchanged test does not pass.
WAYS = ("finding", "value", "crash", "timeout", "missed", "unmade")


class StudyError(Exception):
    """A reason why the study cannot be made."""


# --- mutations ---

@dataclasses.dataclass
class Hunk:
    file: str
    old: str
    new: str
    occurrence: int = 1  # of `count`
    count: int = 1


@dataclasses.dataclass
class Mutation:
    name: str
    where: str  # file and line of its definition
    fields: dict
    hunks: list

    def field(self, key, default=""):
        return self.fields.get(key, default)

    @property
    def kind(self):
        return self.field("kind")

    @property
    def gpu(self):
        return self.field("gpu")

    @property
    def expected(self):
        return self.field("expected", "caught")

    @property
    def on_host(self):
        return self.field("host") == "yes"

    @property
    def sources(self):
        """The .cu files to compile: as named, or the one that is changed."""
        return self.field("compile").split() or [self.hunks[0].file]


FIELDS = {"mutation", "kind", "file", "compile", "test", "filter", "gpu", "host", "expected", "limit", "env", "note"}


def read_mutations():
    mutations = []
    for path in sorted(MUTATIONS.glob("*.txt")):
        mutations += Reader(path).read()
    names = [mutation.name for mutation in mutations]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise StudyError(f"two mutations have the same name: {', '.join(sorted(twice))}")
    return mutations


class Reader:
    """Reads a file of mutations line by line."""

    def __init__(self, path):
        self.path, self.mutations, self.last_field = path, [], None

    def read(self):
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            where = f"{self.path.relative_to(ROOT)}:{number}"
            if line.startswith("mutation:"):
                self.mutations.append(Mutation(line.split(":", 1)[1].strip(), where, {}, []))
                self.last_field = None
            elif not self.mutations or not line.strip() and not self.in_hunk():
                continue
            elif line.startswith("@@"):
                self.mutations[-1].hunks.append(self.begin_hunk(line, where))
            elif self.in_hunk():
                self.add_to_hunk(line, where)
            elif not line.startswith("#"):
                self.add_field(line, where)
        return self.mutations

    def in_hunk(self):
        return bool(self.mutations and self.mutations[-1].hunks)

    def add_field(self, line, where):
        fields = self.mutations[-1].fields
        if line.startswith("  ") and self.last_field:
            fields[self.last_field] += " " + line.strip()
            return
        key, colon, value = line.partition(":")
        if not colon or key not in FIELDS:
            raise StudyError(f"{where}: not a field: {line}")
        fields[key] = value.strip()
        self.last_field = key

    def begin_hunk(self, line, where):
        match = re.fullmatch(r"@@(?: (\d+) of (\d+))?(?: in (\S+))?", line.strip())
        if not match:
            raise StudyError(f"{where}: a hunk begins with '@@', '@@ 1 of 2' or '@@ in FILE'")
        file = match[3] or self.mutations[-1].field("file")
        return Hunk(file, "", "", int(match[1] or 1), int(match[2] or 1))

    def add_to_hunk(self, line, where):
        hunk = self.mutations[-1].hunks[-1]
        if not line.strip():
            return
        if line[0] not in " -+":
            if line[0] == "#":
                return
            raise StudyError(f"{where}: lines of a hunk begin with a blank, '-' or '+'")
        if line[0] != "+":
            hunk.old += line[1:] + "\n"
        if line[0] != "-":
            hunk.new += line[1:] + "\n"


def check_fields(mutation):
    def demand(holds, what):
        if not holds:
            raise StudyError(f"{mutation.where}: {mutation.name}: {what}")

    demand(mutation.kind in KINDS, f"kind is one of {', '.join(KINDS)}")
    demand(mutation.gpu in TARGETS, f"gpu is one of {', '.join(TARGETS)}")
    demand(mutation.expected in EXPECTATIONS, f"expected is one of {', '.join(EXPECTATIONS)}")
    demand(mutation.expected == "caught" or mutation.field("note"), "a note says why nothing is to be seen")
    demand(mutation.field("filter"), "the test's --gtest_filter is missing")
    demand(mutation.hunks, "there is no change")
    for source in mutation.sources:
        demand(source.endswith(".cu") and (ROOT / source).is_file(), f"there is no {source} to compile")


def changed_files(mutation):
    """The changed text of each file."""
    texts = {}
    for hunk in mutation.hunks:
        path = ROOT / hunk.file
        if not path.is_file():
            raise StudyError(f"{mutation.where}: {mutation.name}: there is no file {hunk.file}")
        texts[hunk.file] = changed(mutation, hunk, texts.get(hunk.file) or path.read_text())
    return texts


def changed(mutation, hunk, text):
    """Text with whole lines replaced."""
    text, old = "\n" + text, "\n" + hunk.old
    starts = [match.start() for match in re.finditer("(?=" + re.escape(old) + ")", text)]
    if len(starts) != hunk.count or hunk.old == hunk.new:
        raise StudyError(f"{mutation.where}: {mutation.name}: the text is {len(starts)} times in {hunk.file}, "
                         f"not {hunk.count}:\n{hunk.old}")
    start = starts[hunk.occurrence - 1]
    return (text[:start] + "\n" + hunk.new + text[start + len(old):])[1:]


def line_of(mutation):
    """Where the first change is: FILE:LINE."""
    hunk = mutation.hunks[0]
    before, after = (ROOT / hunk.file).read_text().splitlines(), changed_files(mutation)[hunk.file].splitlines()
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    return f"{hunk.file.removeprefix('src/')}:{same + 1}"


# --- compiling ---

class Build:
    """A build folder and its queries."""

    def __init__(self, folder, cache):
        self.folder, self.cache = folder, cache
        self.commands = self.read_commands()
        self.lock = threading.Lock()
        self.names = {}  # of anonymous namespaces in test binaries
        self.headers = self.hash_headers()

    def read_commands(self):
        path = self.folder / "compile_commands.json"
        if not path.is_file():
            raise StudyError(f"there is no {path}: configure the build first")
        commands = {}
        for entry in json.loads(path.read_text()):
            # Some sources are compiled twice: use the library's own objects.
            if entry["file"] not in commands or "gradmill.dir" in entry["command"]:
                commands[entry["file"]] = (shlex.split(entry["command"]), entry["directory"])
        return commands

    def hash_headers(self):
        digest = hashlib.sha256()
        for path in sorted((ROOT / "src").rglob("*.*h")):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def command_for(self, source):
        path = str(ROOT / source)
        if path not in self.commands:
            raise StudyError(f"{self.folder}/compile_commands.json does not compile {source}")
        return self.commands[path]

    def flags_for(self, source):
        """The build's flags without files, dependencies and -Werror."""
        command, directory = self.command_for(source)
        flags, skip = [], False
        for flag in command[1:]:
            if skip or flag in ("-c", "-MD", str(ROOT / source)):
                skip = False
            elif flag in ("-o", "-MT", "-MF"):
                skip = True
            elif not flag.startswith(("-Werror", "-Xcompiler=-W")):
                flags.append(flag)
        return [command[0]], flags, directory

    def binary(self, test):
        return self.folder / "tests/paper_gpu" / f"{test}_on_paper"


def compile_with(build, mutation, source, mode, suffix):
    """Compiles a source with the mutation's files instead of the project's, or finds an earlier result."""
    files = changed_files(mutation)
    compiler, flags, directory = build.flags_for(source)
    if suffix == ".ptx":
        flags = without_targets(flags)
    key = hashlib.sha256(json.dumps([build.headers, (ROOT / source).read_text(), sorted(files.items()), compiler, flags,
                                     mode]).encode()).hexdigest()[:24]
    result = build.cache / f"{pathlib.Path(source).stem}-{key}{suffix}"
    if result.is_file():
        return result
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        changed_source = pathlib.Path(folder) / source
        at = changed_source if changed_source.is_file() else ROOT / source
        made = pathlib.Path(folder) / ("made" + suffix)
        command = compiler + [f"-I{folder}/src"] + flags + mode + [str(at), "-o", str(made)]
        done = subprocess.run(command, cwd=directory, text=True, capture_output=True)
        if done.returncode != 0:
            raise StudyError(f"{mutation.name} does not compile:\n{done.stdout}{done.stderr}")
        shutil.move(made, result)
    return result


def without_targets(flags):
    return [flag for flag in flags if not flag.startswith(("--generate-code", "-gencode", "-arch"))]


def compile_ptx(build, mutation, source):
    return compile_with(build, mutation, source, ["-ptx", f"-arch=compute_{TARGETS[mutation.gpu]}"], ".ptx")


# Names in anonymous namespaces differ between compilations: they contain the compiler's process
# number in them, and a hash of the path.

def anonymous_name(text, source):
    """'<length>_GLOBAL__N__…' of a source, as it appears in mangled names."""
    stem = (pathlib.Path(source).stem + "_cu").encode()
    match = re.search(rb"_GLOBAL__N__[0-9a-f]+_" + str(len(stem)).encode() + b"_" + stem + rb"_[0-9a-f]+_\d+", text)
    if match is None:
        return None
    before = re.search(rb"\d+$", text[max(0, match.start() - 4):match.start()])
    for digits in [before[0][i:] for i in range(len(before[0]))] if before else []:
        length = int(digits)
        if length <= len(match[0]) and length > len(match[0]) - 4:
            return digits + match[0][:length]
    return None


def with_names_of(build, mutation, source, ptx):
    """The PTX, with the names that the test binary knows its kernels by."""
    binary = build.binary(mutation.field("test", "ops_test"))
    with build.lock:
        key = (binary, source)
        if key not in build.names:
            build.names[key] = anonymous_name(binary.read_bytes(), source)
    own, wanted = anonymous_name(ptx.read_bytes(), source), build.names[key]
    if own is None:
        return ptx
    if wanted is None:
        raise StudyError(f"{binary.name} has no kernels of {source}")
    renamed = build.cache / "named" / f"{ptx.stem}-{hashlib.sha256(wanted).hexdigest()[:8]}.ptx"
    if not renamed.is_file():
        renamed.parent.mkdir(exist_ok=True)
        renamed.write_bytes(ptx.read_bytes().replace(own, wanted))
    return renamed


def link_with(build, mutation, objects, folder):
    """The test with the mutated objects in front of its libraries, whose members of the same names are then not
    taken."""
    binary = build.binary(mutation.field("test", "ops_test"))
    target = str(binary.relative_to(build.folder))
    commands = subprocess.run(["ninja", "-C", str(build.folder), "-t", "commands", target], text=True,
                              capture_output=True, check=True).stdout
    link = commands.strip().splitlines()[-1]
    if f" -o {target} " not in link:
        raise StudyError(f"no link command for {target} in {build.folder}")
    mutated = folder / binary.name
    added = " ".join(shlex.quote(str(path)) for path in objects)
    done = subprocess.run(link.replace(f" -o {target} ", f" {added} -o {shlex.quote(str(mutated))} "), shell=True,
                          cwd=build.folder, text=True, capture_output=True)
    if done.returncode != 0:
        raise StudyError(f"{mutation.name} does not link:\n{done.stdout}{done.stderr}")
    for library in binary.parent.glob("*.so*"):  # loaded from the binary's folder
        (folder / library.name).symlink_to(library)
    return mutated


# --- running ---

@dataclasses.dataclass
class Run:
    status: object  # None: out of time
    output: str
    seconds: float


def run_test(binary, mutation, ptx, limit):
    environment = dict(os.environ, PAPER_GPU=mutation.gpu)
    environment.update(pair.split("=", 1) for pair in mutation.field("env").split())
    if ptx:
        environment["PAPER_PTX"] = ":".join(str(path) for path in ptx)
    # The first failing comparison ends the test.
    command = [str(binary), f"--gtest_filter={mutation.field('filter')}", "--gtest_throw_on_failure"]
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    return Run(status, output.decode(errors="replace"), time.monotonic() - begin)


@dataclasses.dataclass
class Result:
    mutation: Mutation
    caught_by: str  # one of WAYS
    said: str
    seconds: float

    @property
    def is_caught(self):
        return self.caught_by not in ("missed", "unmade")


def first_finding(output):
    match = re.search(r"paper GPU \([^)]*\): (.*)", output)
    return match[1].strip() if match else None


def first_comparison(output):
    """The message of a comparison, even if it ended the program."""
    match = re.search(r"(\S+:\d+): Failure\n(.*)", output)
    if not match or "C++ exception" in match[2]:
        return None
    return f"{pathlib.Path(match[1]).name}: {match[2].strip()}"


def judge(mutation, run):
    finding, comparison = first_finding(run.output), first_comparison(run.output)
    if run.status == 0:
        return Result(mutation, "missed", finding or "", run.seconds)
    if finding:
        return Result(mutation, "finding", finding, run.seconds)
    if run.status is None:
        return Result(mutation, "timeout", "", run.seconds)
    if comparison:
        return Result(mutation, "value", comparison, run.seconds)
    lines = run.output.strip().splitlines()
    return Result(mutation, "crash", lines[-1] if lines else f"status {run.status}", run.seconds)


def try_mutation(build, mutation, limit):
    """The result; a reason why there is none also counts as a result."""
    try:
        return run_mutation(build, mutation, float(mutation.field("limit") or limit))
    except StudyError as error:
        return Result(mutation, "unmade", " ".join(str(error).split()), 0)


def run_mutation(build, mutation, limit):
    if not mutation.on_host:
        ptx = [with_names_of(build, mutation, source, compile_ptx(build, mutation, source))
               for source in mutation.sources]
        return judge(mutation, run_test(build.binary(mutation.field("test", "ops_test")), mutation, ptx, limit))
    objects = [compile_with(build, mutation, source, ["-c"], ".o") for source in mutation.sources]
    with tempfile.TemporaryDirectory(prefix="mutated-test-") as folder:
        binary = link_with(build, mutation, objects, pathlib.Path(folder))
        return judge(mutation, run_test(binary, mutation, [], limit))


class Baseline:
    """Unchanged tests must pass, once per binary, filter and GPU. The cache remembers those that did."""

    def __init__(self, build):
        self.build, self.path = build, build.cache / "passed.json"
        self.passed = json.loads(self.path.read_text()) if self.path.is_file() else {}
        self.lock = threading.Lock()

    def key(self, mutation):
        binary = self.build.binary(mutation.field("test", "ops_test"))
        if not binary.is_file():
            raise StudyError(f"there is no {binary}: build it first")
        libraries = [binary, *sorted(binary.parent.glob("lib*.so*"))]
        made = [(str(path), path.stat().st_mtime_ns) for path in libraries]
        return json.dumps([made, mutation.field("filter"), mutation.gpu, mutation.field("env")])

    def demand(self, mutation, limit):
        key = self.key(mutation)
        if key in self.passed:
            return
        binary, test = self.build.binary(mutation.field("test", "ops_test")), mutation.field("filter")
        listed = subprocess.run([binary, "--gtest_list_tests", f"--gtest_filter={test}"], text=True,
                                capture_output=True, env=dict(os.environ, PAPER_GPU=mutation.gpu)).stdout
        if "  " not in listed:
            raise StudyError(f"{mutation.name}: no test of {binary.name} is called {test}")
        run = run_test(binary, mutation, [], limit)
        if run.status != 0 or first_finding(run.output):
            raise StudyError(f"{test} does not pass on {mutation.gpu} as it is:\n{run.output[-3000:]}")
        if "SKIPPED" in run.output:
            raise StudyError(f"{test} is skipped on {mutation.gpu}")
        print(f"  {test} passes on {mutation.gpu}: {run.seconds:.1f} s", file=sys.stderr)
        with self.lock:
            self.passed[key] = run.seconds
            self.path.write_text(json.dumps(self.passed))


# --- results ---

def markdown_row(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def table(rows, header):
    return [markdown_row(header), markdown_row("---" for _ in header)] + [markdown_row(row) for row in rows]


def shortened(text, most=160):
    return text if len(text) <= most else text[:most - 1] + "…"


def row_of(result):
    mutation = result.mutation
    return (mutation.name, mutation.kind + (", host" if mutation.on_host else ""), line_of(mutation), mutation.gpu,
            result.caught_by, shortened(result.said), f"{result.seconds:.1f}")


def summary_rows(results):
    for kind in KINDS:
        of_kind = [result for result in results if result.mutation.kind == kind]
        if not of_kind:
            continue
        yield (kind, len(of_kind), *(sum(result.caught_by == way for result in of_kind) for way in WAYS))


def report(results):
    wanted = [result for result in results if result.mutation.expected == "caught"]
    others = [result for result in results if result.mutation.expected != "caught"]
    lines = []
    if wanted:
        caught = sum(result.is_caught for result in wanted)
        lines += [f"{caught} of {len(wanted)} mutations are caught ({100 * caught / len(wanted):.1f}%).", ""]
        lines += table(summary_rows(wanted), ("kind", "mutations", *WAYS))
        lines += [""] + table(map(row_of, wanted), ("mutation", "kind", "where", "GPU", "caught by", "first said", "s"))
    if others:
        lines += ["", "Not to be noticed:", ""]
        lines += table([(result.mutation.name, result.mutation.expected, line_of(result.mutation),
                         "quiet" if result.caught_by == "missed" else f"{result.caught_by}: {shortened(result.said)}",
                         result.mutation.field("note")) for result in others],
                       ("mutation", "expected", "where", "result", "why"))
    return "\n".join(lines) + "\n"


def is_good(results):
    wanted = [result for result in results if result.mutation.expected == "caught"]
    missed = [result for result in wanted if not result.is_caught]
    alarms = [result for result in results if result.mutation.expected == "equivalent" and result.is_caught]
    unmade = [result for result in results if result.caught_by == "unmade"]
    few = len(missed) > (1 - LEAST_SHARE) * len(wanted)
    return not (few or alarms or unmade or any(KINDS[result.mutation.kind] for result in missed))


# --- the program ---

def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names or patterns of mutations (default: all)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only mutations of this kind")
    parser.add_argument("--no-host", action="store_true", help="leave out mutations of host code, which are linked anew")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-paper-all", metavar="DIR",
                        help="build folder with the tests on paper and compile_commands.json; the T4's mutations need "
                        "code for 7.5 (default: build-paper-all)")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write the results there, as Markdown")
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="seconds for a test (default: 120)")
    parser.add_argument("--cache", type=pathlib.Path, metavar="DIR",
                        help="folder for compiled kernels (default: mutations in the build folder)")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N",
                        help="run N mutations at a time (default: one for each core)")
    parser.add_argument("--check", action="store_true", help="only see whether every text is found")
    parser.add_argument("--compile", action="store_true", help="only compile; tests need not be there")
    parser.add_argument("--list", action="store_true", help="only list the mutations")
    return parser.parse_args()


def chosen(mutations, arguments):
    of_name = [mutation for mutation in mutations if not arguments.names or any(
        fnmatch.fnmatch(mutation.name, name) for name in arguments.names)]
    result = [mutation for mutation in of_name if not arguments.kind or mutation.kind in arguments.kind]
    if arguments.no_host:
        result = [mutation for mutation in result if not mutation.on_host]
    if not result:
        raise StudyError("no mutation has such a name and kind")
    return result


def list_mutations(mutations):
    for mutation in mutations:
        expected = "" if mutation.expected == "caught" else f" ({mutation.expected})"
        print(f"{mutation.name:44} {mutation.kind:10} {mutation.gpu:8} {line_of(mutation)}{expected}")


def print_counts(mutations):
    for kind in KINDS:
        of_kind = [mutation for mutation in mutations if mutation.kind == kind]
        caught = sum(mutation.expected == "caught" for mutation in of_kind)
        print(f"{kind:10} {caught:3} to be caught, {len(of_kind) - caught} not")
    print(f"{len(mutations)} mutations apply")


def compile_all(build, mutations):
    for mutation in mutations:
        for source in mutation.sources:
            begin = time.monotonic()
            if mutation.on_host:
                compile_with(build, mutation, source, ["-c"], ".o")
            else:
                compile_ptx(build, mutation, source)
            print(f"{mutation.name}: {source} in {time.monotonic() - begin:.1f} s", flush=True)


def failing_tests(build, mutations, pool, limit):
    """For each key of the baseline whose unchanged test does not pass: why."""
    baseline = Baseline(build)
    first = {}
    for mutation in mutations:
        first.setdefault(baseline.key(mutation), mutation)

    def why(mutation):
        try:
            baseline.demand(mutation, 10 * limit)
        except StudyError as error:
            print(f"{mutation.name}: {error}", file=sys.stderr)
            return " ".join(str(error).split())

    whys = dict(zip(first, pool.map(why, first.values())))
    return {mutation.name: whys[baseline.key(mutation)] for mutation in mutations if whys[baseline.key(mutation)]}


def study(build, mutations, arguments):
    results = []
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        unmade = failing_tests(build, mutations, pool, arguments.limit)
        running = [pool.submit(try_mutation, build, mutation, arguments.limit) for mutation in mutations
                   if mutation.name not in unmade]
        results += [Result(mutation, "unmade", unmade[mutation.name], 0) for mutation in mutations
                    if mutation.name in unmade]
        for done in concurrent.futures.as_completed(running):
            result = done.result()
            results.append(result)
            print(f"{result.mutation.name}: {result.caught_by} ({result.seconds:.1f} s) {shortened(result.said)}",
                  flush=True)
            if arguments.out:  # a study that is stopped keeps what it has
                arguments.out.write_text(report(results))
    return sorted(results, key=lambda result: result.mutation.name)


def main():
    arguments = parse_arguments()
    mutations = chosen(read_mutations(), arguments)
    for mutation in mutations:
        check_fields(mutation)
        changed_files(mutation)
    if arguments.list:
        return list_mutations(mutations)
    if arguments.check:
        return print_counts(mutations)
    folder = arguments.build.resolve()
    cache = (arguments.cache or folder / "mutations").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    build = Build(folder, cache)
    if arguments.compile:
        return compile_all(build, mutations)
    results = study(build, mutations, arguments)
    text = report(results)
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print("\n" + text)
    return 0 if is_good(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StudyError as error:
        print(f"mutate_kernels: {error}", file=sys.stderr)
        sys.exit(2)
