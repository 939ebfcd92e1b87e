#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes in src and cli point down only, and that no modules include each other in a circle. A module is a
header with the source of the same name. Its parts may include it and be included by it: files beside it whose names
continue its name (gemm, gemm_plan), and in a folder of ops all files, since the front chooses among kernels that take
the front's arguments. Prints what is wrong and exits 1."""
import re
import sys
from pathlib import Path

# A folder may include itself and the folders below it.
BELOW = {
    "core": [],
    "files": ["core"],
    "config": ["core"],
    "cpu": ["core"],
    "cuda": ["core", "files"],
    "ops": ["core", "cpu", "cuda"],
    "nn": ["core", "ops"],
    "models": ["core", "ops", "nn"],
    "adapters": ["core", "files", "cpu", "ops", "nn", "models", "checkpoint", "model_files"],
    "optim": ["core", "ops", "nn"],
    "tokenizer": ["core", "files"],
    "data": ["core", "files", "tokenizer"],
    "metrics": ["core", "files"],
    "checkpoint": ["core", "files"],
    "model_files": ["core", "files", "ops", "nn", "models", "tokenizer", "checkpoint"],
    "session": ["core", "cuda", "cpu", "ops", "nn", "models", "optim", "tokenizer", "data", "metrics", "checkpoint"],
    "run": ["core", "files", "adapters", "cuda", "config", "cpu", "ops", "nn", "models", "optim", "tokenizer", "data",
            "metrics", "checkpoint", "model_files", "session"],
    "train": ["core", "files", "adapters", "cuda", "config", "ops", "nn", "models", "optim", "tokenizer", "data", "metrics",
              "checkpoint", "model_files", "session", "run"],
    "report": ["core", "files", "cuda", "config", "cpu", "data", "metrics", "session", "run", "train"],
    "bench": ["core", "files", "cuda", "config", "cpu", "ops", "nn", "models", "data", "metrics", "session", "run",
              "report"],
    "cli": ["core", "files", "config", "cuda", "data", "tokenizer", "metrics", "session", "run", "train", "report", "bench"],
}


def sources(root):
    for folder in BELOW:
        top = root / "cli" if folder == "cli" else root / "src" / folder
        for path in sorted(top.rglob("*")):
            if path.suffix in {".h", ".cpp", ".cu", ".cuh"}:
                yield folder, path


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#include "([\w/-]+)\.\w+"', line)
        if match:
            yield number, match[1]


def upward_includes(root):
    for folder, path in sources(root):
        for number, name in includes(path):
            target = name.split("/")[0]
            if target in BELOW and target != folder and target not in BELOW[folder]:
                yield f"{path.relative_to(root)}:{number}: {folder} must not include {target}"


def module_graph(root):
    graph = {}
    for folder, path in sources(root):
        base = root if folder == "cli" else root / "src"
        module = str(path.relative_to(base).with_suffix(""))
        graph.setdefault(module, set()).update(name for _, name in includes(path) if name != module)
    return graph


def are_parts_of_one(modules):
    """Whether they are the parts of one module: one folder of ops, or files whose names continue the shortest one's."""
    folders = {module.rpartition("/")[0] for module in modules}
    if len(folders) == 1 and next(iter(folders)).startswith("ops/"):
        return True
    shortest = min(modules, key=len)
    return all(module == shortest or module.startswith(shortest + "_") for module in modules)


def cycles(graph):
    """The strongly connected components of more than one module, by Tarjan's algorithm without recursion."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            target = next((t for t in rest if t in graph), None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.append(sorted(component))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return found


def main():
    root = Path(__file__).resolve().parent.parent
    wrong = list(upward_includes(root))
    wrong += ["include each other in a circle: " + " ".join(component) for component in cycles(module_graph(root))
              if not are_parts_of_one(component)]
    print("\n".join(wrong) if wrong else "includes point down, and no modules include each other in a circle")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
