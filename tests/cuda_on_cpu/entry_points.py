#!/usr/bin/env python3
"""Checks that the emulation has every function of the CUDA libraries that giro calls.

usage: entry_points.py NM EMULATION BINARY...
"""

import re
import subprocess
import sys

LIBRARIES = re.compile(r"(__)?(cuda|cublas|cudnn|nccl)[A-Z_]\w*")


def symbols(*command):
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip() and not line.endswith(":")}


def main(nm, emulation, *binaries):
    called = {name for name in symbols(nm, "--undefined-only", *binaries) if LIBRARIES.fullmatch(name)}
    missing = called - symbols(nm, "--dynamic", "--defined-only", emulation)
    if not called:
        return "no call of a CUDA library was found"
    return "\n".join(f"{name} is not emulated" for name in sorted(missing)) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
