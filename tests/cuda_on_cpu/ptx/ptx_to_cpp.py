#!/usr/bin/env python3
"""Translates the PTX that nvcc made of a .cu file into C++ for tests/cuda_on_cpu/engine. Fails where it meets an
instruction that it cannot translate, naming kernel and line.

usage: ptx_to_cpp.py IN.ptx OUT.cpp FOLDER

FOLDER: the source tree; reports name lines of files below it by their path within it. The PTX wants -lineinfo.
"""

import os
import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # nothing is left in the source tree

import cpp
import module


def main(ptx, to, root):
    try:
        text, errors = cpp.write(module.parse(ptx, root), os.path.basename(ptx))
    except module.PtxError as error:
        errors = [str(error)]
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 1
    with open(to, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
