#!/usr/bin/env python3
"""Compiles the C++ blocks of Markdown pages, as a reader would who pastes them.

usage: code_blocks.py COMPILER INCLUDE_FOLDER PAGE...

A block with a main() is a program by itself. Every other block of a page belongs to one source, in order:
- a block that begins with { lists the tasks of a loop;
- a block that begins with a definition of a function, a class, a namespace or a using is at namespace scope, so the
  blocks after it may use it, or define the name again;
- any other block is the body of a function.
Comments, which no reader sees, make up for what a page leaves out:
- <!-- cpp
  CODE
  --> is a block as above, for names that the blocks after it use;
- <!-- fragment --> before a block says that it cannot compile, because it shows a signature or leaves something out.
The compiler's messages name page and line.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^(?P<indent> *)(?:```cpp\n(?P<code>.*?)^ *```$|<!-- cpp\n(?P<hidden>.*?)^ *-->$)", re.S | re.M)
FRAGMENT = re.compile(r"<!-- fragment -->\n\s*\Z")
DEFINITION = re.compile(r"(struct|class|enum|template|using|namespace)\b|[\w:<>,&* ]+ [&*]?[\w:]+\([^;]*\) (const )?\{$")
INCLUDE = re.compile(r"^\s*#include .*$", re.M)
# Blocks name results that they do not use.
OPTIONS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
           "-Wno-unused-but-set-variable", "-Wno-unused-function", "-Wno-unused-parameter",
           "-Wno-unused-value"]
# What every page's blocks may use: all of giro, and the names of README's program.
PRELUDE = """#include <giro/giro.h>
#include <giro/jaxloop.h>
#include <giro/flip.h>
#include <cstdio>
#include <string>
#include <vector>
namespace nn = giro::nn;
namespace optim = giro::optim;
namespace jl = giro::jaxloop;
namespace flip = giro::flip;
extern giro::Dataset train, test;
extern nn::Layer model;
extern giro::TrainState state;
extern giro::Batch batch;
inline auto train_step = giro::jit([](giro::TrainState&, const giro::Batch&) { return giro::Logs(); });
inline const int total_steps = 5'000;
"""


def blocks_of(page):
    """(line, code, whether it is a fragment, whether it is hidden) of each block."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        hidden = match["hidden"] is not None
        code = match["hidden"] if hidden else match["code"]
        code = re.sub(f"^{match['indent']}", "", code, flags=re.M)
        yield text.count("\n", 0, match.start()) + 2, code, FRAGMENT.search(text, 0, match.start()) is not None, hidden


def first_code(code):
    lines = (line for line in code.splitlines() if line.strip() and not line.lstrip().startswith(("//", "#")))
    return next(lines, "")


def sources_of(page):
    """The sources that a page's blocks make, and how many blocks are compiled and how many are fragments."""
    sources, parts, counts = [], [], [0, 0]
    depth, includes = 0, []
    for line, code, fragment, hidden in blocks_of(page):
        counts[fragment] += not hidden
        if fragment:
            continue
        where = f'#line {line} "{page}"\n'
        if re.search(r"^int main\(", code, re.M):
            sources.append(where + code)
            continue
        includes += INCLUDE.findall(code)
        code = INCLUDE.sub("", code)
        start = first_code(code)
        if start.startswith("{"):
            parts.append(f"inline std::vector<giro::Task<giro::TrainState, giro::Batch>> tasks_{line}() {{ return {{\n"
                         f"{where}{code}\n}}; }}\n")
        elif hidden or DEFINITION.match(start):
            parts.append(f"namespace block_{line} {{\n{where}{code}\n")
            depth += 1
        else:
            parts.append(f"inline void block_{line}() {{\n{where}{code}\n}}\n")
    if parts:
        sources.append(PRELUDE + "\n".join(dict.fromkeys(includes)) + "\n" + "".join(parts) + "}\n" * depth)
    return sources, counts


def main(compiler, includes, *pages):
    sources, compiled, fragments = [], 0, 0
    for page in pages:
        of_page, counts = sources_of(pathlib.Path(page))
        sources += of_page
        compiled, fragments = compiled + counts[0], fragments + counts[1]

    with tempfile.TemporaryDirectory() as folder:
        # Parsed once for all sources, since that takes most of the time; g++ finds it wherever a source begins with it.
        header = pathlib.Path(folder, "giro", "giro.h")
        header.parent.mkdir()
        header.write_text(f'#include "{os.path.abspath(includes)}/giro/giro.h"\n', encoding="utf-8")
        subprocess.run([compiler, *OPTIONS, "-I", includes, "-x", "c++-header", header, "-o", f"{header}.gch"],
                       check=True)
        options = [*OPTIONS, "-fsyntax-only", "-I", folder, "-I", includes, "-x", "c++", "-"]

        def compile_one(source):
            return subprocess.run([compiler, *options], input=source, capture_output=True, text=True, check=False)

        with concurrent.futures.ThreadPoolExecutor(min(4, len(os.sched_getaffinity(0)))) as pool:
            failures = [result.stderr for result in pool.map(compile_one, sources) if result.returncode != 0]
    print("\n".join(failures) or f"{compiled} blocks compiled, {fragments} fragments")
    return 1 if failures or compiled == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
