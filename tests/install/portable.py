#!/usr/bin/env python3
"""Checks that a library runs on every x86-64 CPU: only functions that are called after a CPU check may use AVX.

usage: portable.py OBJDUMP OBJECT...
"""

import re
import subprocess
import sys

# Wide registers, masks, and other instructions with a VEX or EVEX prefix.
NEWER = re.compile(r"\t(v[a-z0-9]+|k(mov|or|and|xor|not)[bwdq]+) .*%([xyz]mm|k[0-7])")

# narrow::can_run (kernels/cpu/narrow_dense.h) and expr::instruction_set check the CPU before any of these is
# called.
GUARDED = re.compile(r"<_ZN4giro(3cpu6narrow12_GLOBAL__N_1|3cpu(8winograd)?12_GLOBAL__N_1(4avx2|6avx512)|"
                     r"4expr8CompiledI.*(4avx2|6avx512)E)")


def main(objdump, *objects):
    text = subprocess.run([objdump, "--disassemble", "--no-show-raw-insn", *objects], capture_output=True, text=True,
                          check=True).stdout
    found, function, instructions = [], "", 0
    for line in text.splitlines():
        if line.endswith(">:"):
            function = line
        elif "\t" in line:
            instructions += 1
            if NEWER.search(line) and not GUARDED.search(function):
                found.append(f"{function} {line.strip()}")
    print(f"{instructions} instructions, {len(found)} of them need AVX without asking for it", *found[:5], sep="\n")
    return 1 if found or instructions == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
