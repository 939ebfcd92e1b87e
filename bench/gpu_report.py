# SPDX-License-Identifier: Apache-2.0
"""The tables of the GPU comparison, from the records that compare_gpu.py keeps."""
import statistics

from peers.gpu_rows import MEMORY_MUST, ROWS

NONE = "-"
FAILED = "failed"


class RowResult:
    """The runs of one row: ours as medians, and the fastest twin that worked."""

    def __init__(self, name, records):
        self.name, self.row = name, ROWS[name]
        self.records = [record for record in records if record["row"] == name]
        self.our_records = [record for record in self.records if record["who"] == "ours"]
        self.twin_records = [record for record in self.records if record["who"] == "twin"]
        self.ours = [record for record in self.our_records if "error" not in record]
        working = [record for record in self.twin_records if "error" not in record]
        self.twin = max(working, key=lambda record: record["tokens_per_s"], default=None)

    def __bool__(self):
        return bool(self.records)

    def median(self, key):
        values = [record[key] for record in self.ours if record.get(key) is not None]
        return statistics.median(values) if values else None

    def of_twin(self, key):
        return self.twin.get(key) if self.twin else None

    def our_speed(self):
        """Median of the runs; with its spread, and the runs that failed."""
        if not self.ours:
            return FAILED if self.our_records else NONE
        speeds = [record["tokens_per_s"] for record in self.ours]
        text = f"{statistics.median(speeds):,.0f}"
        if len(speeds) > 1:
            text += f" [{min(speeds):,.0f}, {max(speeds):,.0f}]"
        lost = len(self.our_records) - len(self.ours)
        return text + (f", {lost} of {len(self.our_records)} failed" if lost else "")

    def twin_speed(self):
        if not self.twin:
            return FAILED if self.twin_records else NONE
        return f"{self.twin['tokens_per_s']:,.0f} ({self.twin['mode']})"


def ratio(ours, theirs):
    return ours / theirs if ours is not None and theirs else None


def number(value, form):
    return NONE if value is None else f"{value:{form}}"


def gibibytes(value):
    return number(None if value is None else value / 2**30, ".1f")


def target(value, least):
    """The target, and whether it was met."""
    if least is None:
        return NONE
    return f"{least:.2f}" if value is None else f"{least:.2f} {'met' if value >= least else 'missed'}"


def print_table(titles, lines):
    print("| " + " | ".join(titles) + " |")
    print("|---" + "|---:" * (len(titles) - 1) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def speed_lines(result):
    """The row beside its twin, and beside the trainer whose recorded figure it has, if any."""
    speed = result.median("tokens_per_s")
    against_twin = ratio(speed, result.of_twin("tokens_per_s"))
    memory = ratio(result.median("memory_bytes"), result.of_twin("peak_allocated_bytes"))
    verdict = "" if memory is None else " met" if memory <= MEMORY_MUST else " missed"
    warm = "" if result.of_twin("cold_cache") in (None, True) else " (kept cache)"
    yield [result.name, result.our_speed(), result.twin_speed(), number(against_twin, ".3f"),
           target(against_twin, result.row.must), target(against_twin, result.row.aim),
           gibibytes(result.median("memory_bytes")), gibibytes(result.of_twin("peak_allocated_bytes")),
           number(memory, ".2f") + verdict,
           f"{number(result.median('first_step_s'), '.1f')}, {number(result.of_twin('first_step_s'), '.1f')}{warm}"]
    reference = result.row.reference
    if reference:
        against = ratio(speed, reference.tokens_per_second)
        yield [result.name, number(speed, ",.0f"), f"{reference.tokens_per_second:,} ({reference.name}, recorded)",
               number(against, ".3f"), target(against, reference.must), target(against, reference.aim),
               NONE, NONE, NONE, NONE]


def detail_lines(result):
    """Each run by itself, in the order in which they ran."""
    for record in result.records:
        if "error" in record:
            yield [result.name, record["who"], record.get("mode", NONE), FAILED] + [NONE] * 7
            continue
        allocated = record.get("memory_bytes", record.get("peak_allocated_bytes"))
        yield [result.name, record["who"], record.get("mode", NONE), f"{record['tokens_per_s']:,.0f}",
               number(record.get("step_ms"), ",.2f"), number(record.get("fastest_ms"), ",.2f"),
               gibibytes(allocated), gibibytes(record.get("peak_reserved_bytes")),
               gibibytes(record.get("driver_bytes")), number(record.get("setup_s"), ".1f"),
               number(record.get("loss"), ".3f")]


def floor_lines(results, records):
    floors = {(record["model"], record["B"], record["prec"]): record["floor_tok_s"] for record in records
              if record["who"] == "floor" and "floor_tok_s" in record}
    for result in results:
        if result.row.floor is None or not floors:
            continue
        ours, twin = result.median("tokens_per_s"), result.of_twin("tokens_per_s")
        for precision in ("bf16", "fp8"):
            floor = floors.get((*result.row.floor, precision))
            yield [result.name, precision, number(floor, ",.0f"), number(ours, ",.0f"),
                   number(ratio(ours, floor), ".0%"), number(ratio(twin, floor), ".0%")]


def machine(records):
    known = [(record["gpu"], record["torch"]) for record in records if "gpu" in record]
    return "{}, PyTorch {}; ".format(*known[0]) if known else ""


def attention_notes(results):
    for result in results:
        if result.of_twin("attention_kernels"):
            yield f"Attention kernels of the twin of {result.name}: {', '.join(result.of_twin('attention_kernels'))}"


def print_report(records):
    results = [result for result in (RowResult(name, records) for name in ROWS) if result]
    if any(record.get("smoke") for record in records):
        print("\n**The twins were shrunk and ran on the CPU: this checks the scripts and compares nothing.**")
    print(f"\n{machine(records)}tokens/s, median [slowest, fastest run]; memory is arenas and workspaces beside the "
          f"twin's peak of allocated memory (must: at most {MEMORY_MUST} of it)\n")
    print_table(["row", "ours tok/s", "twin tok/s (mode)", "ratio", "goal", "higher goal", "our memory GiB", "twin GiB",
                 "ratio", "first step s (ours, twin)"], [line for result in results for line in speed_lines(result)])
    print_table(["row", "run", "mode", "tok/s", "median ms", "fastest ms", "memory GiB", "reserved GiB", "driver GiB",
                 "until timed s", "loss"], [line for result in results for line in detail_lines(result)])
    floors = list(floor_lines(results, records))
    if floors:
        print_table(["row", "floor of", "floor tok/s", "ours tok/s", "ours / floor", "twin / floor"], floors)
    for note in attention_notes(results):
        print(note)
    for record in records:
        if "error" in record:
            run = [record["row"], record["who"], record.get("mode")]
            print(f"{FAILED}: {' '.join(filter(None, run))}: {record['error']}")
