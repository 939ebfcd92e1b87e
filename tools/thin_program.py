#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""thin_program.py PROGRAM machine-code|ptx CAPABILITY: blanks the GPU code that a program does not need.

The machine code (or the PTX) for the compute capability (90 for 9.0) stays. All other code in the program's fat
binaries becomes zeros, which take no room in an archive. Exit status 1, with the program as it was, if it has none.
"""

import argparse
import struct
import subprocess
import sys

MAGIC = 0xba55ed50
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of all entries
ENTRY = struct.Struct("<HHIQ3II")  # kind, version, bytes of the header, bytes of the code, unknown, compute capability
KINDS = {"ptx": 1, "machine-code": 2}
NO_KIND = 0x40  # the paper GPU reads every entry that is PTX


def section(path, name):
    """Its position in the file and its size; None if there is none."""
    listing = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        fields = line.partition("]")[2].split()
        if fields and fields[0] == name:
            return int(fields[3], 16), int(fields[4], 16)
    return None


def entries(data):
    """The fields of each entry, and its position."""
    at = 0
    while at + HEADER.size <= len(data):
        magic, _, header, size = HEADER.unpack_from(data, at)
        if magic != MAGIC:  # padding
            at += 8
            continue
        entry, at = at + header, at + header + size
        while entry < at:
            fields = ENTRY.unpack_from(data, entry)
            yield entry, fields
            entry += fields[2] + fields[3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("keep", choices=KINDS)
    parser.add_argument("capability", type=int)
    options = parser.parse_args()
    place = section(options.program, ".nv_fatbin")
    if place is None:  # it has no code for a GPU
        return
    begin, size = place
    with open(options.program, "r+b") as file:
        file.seek(begin)
        found = list(entries(file.read(size)))
        stays = [kind == KINDS[options.keep] and capability == options.capability
                 for _, (kind, *_, capability) in found]
        if not any(stays):
            sys.exit(f"{options.program} has no {options.keep} for {options.capability}: nothing was changed")
        for (at, (_, _, header, code, *_)), kept in zip(found, stays):
            if kept:
                continue
            file.seek(begin + at + header)
            file.write(bytes(code))
            if options.keep == "ptx":
                file.seek(begin + at)
                file.write(struct.pack("<H", NO_KIND))


if __name__ == "__main__":
    main()
