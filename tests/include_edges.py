"""Checks the include edges: include_edges.py ROOT.

docs/developers.md lists the library's folders in order: a folder includes only itself and those before it, and one in
parentheses is included by samples and tests alone. No folders of samples and tests, and no headers, include each other.
A public header (cmake/public_headers.txt) includes public headers and the standard library, so that it needs no CUDA,
cuDNN, NCCL or MPI, nor anything that giro links privately. Public headers are included as <giro/...>, private ones as
"..." from the repository's root. A header that has a source of its name has it beside itself. Each folder has a
README.md, which says in its first line what is in it.
"""

import graphlib
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STANDARD = re.compile(r"[a-z_0-9]+|std[a-z]+\.h")
UMBRELLAS = {"giro.h": "callbacks/giro.h", "jaxloop.h": "callbacks/jaxloop/jaxloop.h", "flip.h": "callbacks/flip/flip.h"}
BACKENDS = {"cpu", "cuda", "mpi", "nccl", "no_cuda", "no_mpi", "no_nccl"}  # they carry out what others declare
LIST = "docs/developers.md"
SUFFIXES = (".h", ".hpp", ".cuh", ".c", ".cpp", ".cu")
NOT_CODE = {"cmake", "docs", "findings", "logdir"}


def folders_in_order(root):
    """The folders of the first block of code in LIST, and those of them in parentheses."""
    block = re.search(r"^```text\n(.*?)^```", (root / LIST).read_text(), re.M | re.S)
    names = block[1].split() if block else []
    return [name.strip("()") for name in names], {name.strip("()") for name in names if name.startswith("(")}


def folder_of(path):
    return path.rpartition("/")[0]


class Edges:
    def __init__(self, root):
        self.root, self.errors, self.count = root.resolve(), [], 0
        self.order, self.walled = folders_in_order(self.root)
        listed = (root / "cmake" / "public_headers.txt").read_text().split()
        self.public = {UMBRELLAS.get(name, name) for name in listed}
        self.headers, self.folders = {}, {}  # what each includes

    def place(self, path):
        top = path.split("/")[0]
        return len(self.order) if top in ("samples", "tests") else self.order.index(folder_of(path))

    def check(self):
        if not self.order:
            return [f"{LIST}: expected a block of code that begins with ```text and lists the folders, found none"]
        tops = [path.name for path in sorted(self.root.iterdir()) if path.is_dir() and path.name not in NOT_CODE and
                not path.name.startswith((".", "build"))]
        self.tops = [top for top in tops if top not in ("samples", "tests")]
        sources = [path for top in tops for path in sorted((self.root / top).rglob("*")) if path.suffix in SUFFIXES]
        self.names = {path.relative_to(self.root).as_posix() for path in sources}
        found = {folder_of(name) for name in self.names if name.split("/")[0] in self.tops}
        self.errors += [f"{LIST}: {name} stands twice in the list" for name in set(self.order) if self.order.count(name) > 1]
        for folder in sorted(found):
            if folder not in self.order:
                self.errors.append(f"{folder}: a folder of the library has its place in the list of {LIST}")
            elif not re.match(r"[A-Z].*\w", self.first_line(folder)):
                self.errors.append(f"{folder}/README.md: its first line says what is in the folder")
        self.errors += [f"{LIST}: there is no folder {name}" for name in self.order if name not in found]
        self.errors += [f"cmake/public_headers.txt: there is no {name}" for name in sorted(self.public - self.names)]
        if self.errors:
            return self.errors
        for path in sources:
            self.check_file(path, path.relative_to(self.root).as_posix())
        self.check_headers_stand_by_sources(self.tops)
        for what, edges in (("headers", self.headers), ("folders", self.folders)):
            try:
                graphlib.TopologicalSorter(edges).prepare()
            except graphlib.CycleError as error:
                self.errors.append(f"these {what} include each other: " + " ".join(error.args[1]))
        if self.count == 0:
            self.errors.append(f"no include of giro's own found under {self.root}")
        return self.errors

    def first_line(self, folder):
        readme = self.root / folder / "README.md"
        return readme.read_text().partition("\n")[0] if readme.is_file() else ""

    def check_file(self, path, name):
        if name.startswith("tests/install/"):
            return
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            # A sample is written like a user's program, with its headers alongside.
            beside = (path.parent / target).resolve()
            if quote == '"' and name.startswith("samples/") and beside.is_file() and (self.root / "samples") in beside.parents:
                continue
            problem = self.problem(name, quote, target)
            if problem:
                self.errors.append(f"{name}:{number}: {line.strip()}: {problem}")

    def problem(self, name, quote, target):
        is_public = name in self.public
        if quote == "<" and target.split("/")[0] in [*self.tops, "samples", "tests"]:
            return "a header of giro's is included as <giro/...> if it is public, else as \"...\""
        if quote == "<" and not target.startswith("giro/"):
            if is_public and not STANDARD.fullmatch(target):
                return "a public header includes the standard library and giro's public headers only"
            return None
        self.count += 1
        header = UMBRELLAS.get(target[5:], target[5:]) if quote == "<" else target
        if quote == '"' and name.startswith("samples/"):
            return "a sample includes public headers only, and those beside it"
        if header not in self.names:
            return "there is no such header" if quote == "<" else "not the path of a header from the repository's root"
        if quote == "<" and header not in self.public:
            return "cmake/public_headers.txt does not name this header, so it is private"
        if quote == '"' and header in self.public:
            return f"a public header is included as <giro/{header}>"
        if quote == '"' and is_public:
            return "a public header includes a private one"
        if self.place(header) > self.place(name):
            return f"in the list of {LIST}, {folder_of(header)} comes after {folder_of(name)}"
        if folder_of(header) in self.walled - {folder_of(name)} and self.place(name) < len(self.order):
            return f"the list of {LIST} has {folder_of(header)} in parentheses: samples and tests alone include it"
        if name.endswith((".h", ".cuh")):
            self.headers.setdefault(name, []).append(header)
        if folder_of(header) != folder_of(name):
            self.folders.setdefault(folder_of(name), set()).add(folder_of(header))
        return None

    def check_headers_stand_by_sources(self, tops):
        sources = {}
        for name in self.names:
            if name.split("/")[0] in tops and name.endswith((".cpp", ".cu")):
                sources.setdefault(pathlib.Path(name).stem, set()).add(folder_of(name))
        for name in sorted(self.names):
            if name.split("/")[0] not in tops or not name.endswith((".h", ".cuh")):
                continue
            folders = sources.get(pathlib.Path(name).stem, set())
            # A backend carries out what its own part of the library declares.
            apart = sorted(folder for folder in folders if folder.split("/")[-1] not in BACKENDS or
                           folder.split("/")[0] != name.split("/")[0])
            if apart and folder_of(name) not in folders:
                self.errors.append(f"{name}: a source of its name is in {apart[0]}, expected it beside the header")


def check(root):
    return Edges(root).check()


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) or "every include edge is in order")
    sys.exit(1 if problems else 0)
