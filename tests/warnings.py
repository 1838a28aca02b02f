#!/usr/bin/env python3
"""Checks sources for warnings without generating code.

usage: warnings.py headers COMPILER INCLUDE_FOLDER PUBLIC_HEADERS SOURCE...    each public header alone, and each SOURCE
       warnings.py sources COMPILER INCLUDE_FOLDER PUBLIC_HEADERS SOURCE...    all public headers at once, and each SOURCE

PUBLIC_HEADERS is a file that lists them. For a SOURCE in Markdown, its first C++ listing is checked.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wno-sign-conversion"]
# Headers are compiled with their users' warnings, too.
HEADER_WARNINGS = [*WARNINGS, "-Wshadow"]


def main(what, compiler, includes, listed, *sources):
    headers = [f"#include <giro/{name}>\n" for name in pathlib.Path(listed).read_text(encoding="utf-8").split()]
    base = [compiler, "-std=c++20", "-fsyntax-only", "-Werror", "-I", includes]
    texts = headers if what == "headers" else ["".join(headers)]
    runs = [([*base, *HEADER_WARNINGS, "-x", "c++", "-"], text) for text in texts]
    for source in sources:
        if source.endswith(".md"):
            listing = re.search(r"^```cpp\n(.*?)^```", pathlib.Path(source).read_text(encoding="utf-8"), re.S | re.M)[1]
            runs.append(([*base, "-Wall", "-Wextra", "-x", "c++", "-"], listing))
        else:
            runs.append(([*base, *WARNINGS, source], None))

    def compile_one(run):
        command, text = run
        result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return result.returncode == 0 or f"{command[-1] if text is None else text}{result.stderr}"

    with concurrent.futures.ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
        failures = [said for said in pool.map(compile_one, runs) if said is not True]
    print("\n".join(failures) or f"{len(runs)} compiled without a warning")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
