#!/usr/bin/env python3
"""Checks that clang-format would change nothing.

usage: layout.py CLANG_FORMAT ROOT
"""

import subprocess
import sys


def main(clang_format, root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True,
                            text=True, check=False)
    if listed.returncode != 0:
        print("skipped: not a git checkout")
        return 77
    files = [file for file in listed.stdout.split("\0") if file]
    if not files:
        return "git lists no sources"
    return subprocess.run([clang_format, "--dry-run", "--Werror", *files], cwd=root, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
