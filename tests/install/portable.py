#!/usr/bin/env python3
"""That a library runs on every x86-64 CPU: no instruction of it needs AVX.

usage: portable.py OBJDUMP LIBRARY
"""

import re
import subprocess
import sys

# Wide registers and masks, and whatever else has a VEX or EVEX prefix.
NEWER = re.compile(r"\t(v[a-z0-9]+|k(mov|or|and|xor|not)[bwdq]+) .*%([xyz]mm|k[0-7])")


def main(objdump, library):
    text = subprocess.run([objdump, "--disassemble", "--no-show-raw-insn", library], capture_output=True, text=True,
                          check=True).stdout
    found, function, instructions = [], "", 0
    for line in text.splitlines():
        if line.endswith(">:"):
            function = line
        elif "\t" in line:
            instructions += 1
            if NEWER.search(line):
                found.append(f"{function} {line.strip()}")
    print(f"{instructions} instructions, {len(found)} of them need AVX", *found[:5], sep="\n")
    return 1 if found or instructions == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
