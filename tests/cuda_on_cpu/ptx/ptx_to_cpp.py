#!/usr/bin/env python3
"""Translates the PTX of a .cu file into C++ for tests/cuda_on_cpu/engine. Fails at an instruction that it cannot
translate, naming the kernel and line.

usage: ptx_to_cpp.py IN OUT.cpp FOLDER

IN: PTX, or an object that nvcc made with --no-compress, whose PTX for the oldest architecture is used. FOLDER: the
source tree; reports name files below it by their path within it, if the PTX was made with -lineinfo.
"""

import os
import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # leaves nothing in the source tree

import cpp
import module


def main(path, to, root):
    try:
        text, errors = cpp.write(module.parse(path, root), os.path.basename(path))
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
