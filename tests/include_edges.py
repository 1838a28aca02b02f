"""Checks the include edges: include_edges.py ROOT PUBLIC_HEADERS, the latter a file naming the installed headers.

A folder includes only itself and those to its left. A public header includes public headers and the standard library,
so that it needs no CUDA, cuDNN, NCCL or MPI, nor anything that giro links privately. Public headers are included as
<giro/...>, private ones as "..." from the repository's root. No headers include each other.
"""

import graphlib
import pathlib
import re
import sys

LAYERS = ["runtime", "kernels", "distributed", "loop", "callbacks", "samples", "tests"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Walls within a folder: who may not include what, and why.
WALLS = [(re.compile(r"runtime/((?!trace\.)[a-z0-9_]+\.(h|cpp)|(internal|program)/.*)"), re.compile(r"runtime/files/.*"),
          "devices, state and programs know nothing of files"),
         (re.compile(r"(?!loop/run/|tests/).*"), re.compile(r"loop/run/.*"), "the loop's engine is known by loop/engine.h alone")]
STANDARD = re.compile(r"[a-z_0-9]+|std[a-z]+\.h")


def layer(path):
    return LAYERS.index(path.split("/")[0] if "/" in path else "callbacks")


def check(root, public):
    errors, edges, headers = [], 0, {}
    sources = [p for folder in LAYERS for p in sorted((root / folder).rglob("*")) if p.suffix in (".h", ".cpp", ".cu", ".cuh")]
    for source in sources:
        name = source.relative_to(root).as_posix()
        if name.startswith("tests/install/"):
            continue
        is_public = name in public or name.removeprefix("callbacks/") in public
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{name}:{number}: {line.strip()}: "
            if quote == "<" and not target.startswith("giro/"):
                if is_public and not STANDARD.fullmatch(target):
                    errors.append(where + "a public header includes the standard library and giro's public headers only")
                continue
            # A sample is written like a user's program, with its headers alongside.
            if quote == '"' and name.startswith("samples/") and (source.parent / target).is_file():
                continue
            edges += 1
            header = target.removeprefix("giro/") if quote == "<" else target
            if source.suffix in (".h", ".cuh"):
                headers.setdefault(name, []).append(header)
            if quote == "<" and header not in public:
                errors.append(where + "no such public header (a header in internal/, run/, cpu/, cuda/, mpi/, nccl/, functors/, pointwise/ or tools/ is private)")
            elif quote == '"' and header in public:
                errors.append(where + f"a public header is included as <giro/{header}>")
            elif quote == '"' and not (root / header).is_file():
                errors.append(where + "not the path of a header from the repository's root")
            elif quote == '"' and is_public:
                errors.append(where + "a public header includes a private one")
            elif quote == '"' and name.startswith("samples/"):
                errors.append(where + "a sample includes public headers only, and those beside it")
            elif layer(header) > layer(name):
                errors.append(where + f"{name.split('/')[0]} may not include what lies to its right")
            errors += [where + why for inside, outside, why in WALLS if inside.fullmatch(name) and outside.fullmatch(header)]
    try:
        graphlib.TopologicalSorter(headers).prepare()
    except graphlib.CycleError as error:
        errors.append("these headers include each other: " + " ".join(error.args[1]))
    if edges == 0:
        errors.append(f"no include of giro's own found under {root}")
    return errors


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]), set(pathlib.Path(sys.argv[2]).read_text().split()))
    print("\n".join(problems) or "every include edge is in order")
    sys.exit(1 if problems else 0)
