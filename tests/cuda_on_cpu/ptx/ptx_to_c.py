#!/usr/bin/env python3
"""Translates the PTX of a .cu file into C for tests/cuda_on_cpu/engine. Fails at an instruction that it cannot
translate, naming the kernel and line.

usage: ptx_to_c.py IN OUT.c FOLDER
       ptx_to_c.py FOLDER

IN: PTX, or an object that nvcc made with --no-compress, whose PTX for the oldest architecture is used. FOLDER: the
source tree; reports name files below it by their path within it, if the PTX was made with -lineinfo. Without IN and
OUT, it reads lines "IN<tab>OUT.c" and answers each with the number of errors and a line for each.
"""

import os
import signal
import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # leaves nothing in the source tree

import c_file
import module


def translate(path, to, root):
    """Returns the errors, a list of lines."""
    try:
        text, errors = c_file.write(module.parse(path, root), os.path.basename(path))
    except module.PtxError as error:
        errors = [str(error)]
    if not errors:
        with open(to, "w", encoding="utf-8") as file:
            file.write(text)
    return "\n".join(errors).splitlines()


def serve(root):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's, for the program that is served
    for line in sys.stdin:
        errors = translate(*line.rstrip("\n").split("\t"), root)
        print("\n".join([str(len(errors)), *errors]), flush=True)


def main(path, to, root):
    errors = translate(path, to, root)
    print("\n".join(errors), end="\n" if errors else "", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 4 else serve(sys.argv[1]))
