#!/usr/bin/env python3
"""Removes each synchronisation, stream argument and error check of the CUDA backend in turn and runs the tests that
concern it on the emulation: they have to fail.

usage: mutation_check.py [--list] [--only PATTERN] [--tree FOLDER] [--fresh] [--jobs N]

Works in a copy of the tree, build-mutations/ unless --tree says otherwise, and keeps its build for the next time.
Verdicts are kept in results.json there: an interrupted run goes on where it stopped, and a site whose file has changed
since is run again; --fresh forgets them all. --only takes the mutations whose "FILE:LINE KIND" holds PATTERN, a regular
expression. What does not compile is counted apart.
"""

import argparse
import bisect
import collections
import filecmp
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = "build-cuda-on-cpu"
TIMEOUT = 300  # seconds: a test that hangs has noticed

# What is looked at, and which tests concern it: (target, filter), the quickest to fail first.
ERRORS = ("cuda_on_cpu_error_checks_test", "*")
GPU = "*cuda*:*Cuda*:*CUDA*"
RUNTIME = ("runtime_test", GPU)
KERNELS = ("kernels_test", GPU)
LOOP = ("loop_test", GPU)
CONCERNED = [  # first match
    ("runtime/cuda/*", [ERRORS, RUNTIME, LOOP, KERNELS]),
    ("kernels/cuda/update.cu", [("kernels_optim_test", GPU), ERRORS, KERNELS]),
    ("kernels/cuda/*", [ERRORS, KERNELS]),
    ("runtime/*", [RUNTIME, LOOP, KERNELS]),
    ("loop/*", [LOOP]),
    ("callbacks/*", [("callbacks_test", GPU)]),
]
SOURCES = ["runtime/cuda/*.cpp", "runtime/cuda/*.h", "kernels/cuda/*.cpp", "kernels/cuda/*.h", "kernels/cuda/*.cuh",
           "kernels/cuda/*.cu", "runtime/*.cpp", "loop/*.cpp", "callbacks/*.cpp"]

# FILE:LINE KIND, the file's text from begin to end replaced.
Mutation = collections.namedtuple("Mutation", "file line kind begin end replacement")

# Calls whose last argument is a stream, and those whose first is.
STREAM_LAST = ("cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaGraphLaunch", "cublasLtMatmul", "Bulk",
               "cudnnSetStream")
STREAM_FIRST = ("cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaStreamBeginCapture")


def without_comments(text):
    """The text with comments blanked out, every character in its place."""
    return re.sub(r"//[^\n]*", lambda match: " " * len(match[0]), text)


def closing(text, opening):
    """Where the parenthesis at `opening` closes."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError("a parenthesis does not close")


def arguments(text, opening, close):
    """Begin and end of each argument between two parentheses."""
    found, depth, begin = [], 0, opening + 1
    for at in range(opening + 1, close):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text[at], 0)
        if text[at] == "," and depth == 0:
            found.append((begin, at))
            begin = at + 1
    return found + [(begin, close)]


def mutations_of(file, text):
    code = without_comments(text)
    starts = [match.end() for match in re.finditer(r"\n", code)]

    def mutation(kind, begin, end, replacement):
        return Mutation(file, bisect.bisect_right(starts, begin) + 1, kind, begin, end, replacement)

    cuda = "/cuda/" in file
    if cuda:
        for match in re.finditer(r"\b__(syncthreads|syncwarp|threadfence\w*)\(\);", code):
            yield mutation("__" + match[1], match.start(), match.end(), ";")
        # The body of a statement: a call whose status is looked at, not the declaration of check itself.
        for match in re.finditer(r"(?<=[;{})\s])check\(", code):
            if re.match(r"(cuda|cublas|cudnn)(Error_t|Status_t|Error)\b", code[match.end():]):
                continue
            close = closing(code, match.end() - 1)
            begin, end = arguments(code, match.end() - 1, close)[0]
            yield mutation("check", match.start(), close + 1, f"(void)({code[begin:end]})")
        for match in re.finditer(r"(?<=\s)check_launch\(\"", code):
            yield mutation("check_launch", match.start(), closing(code, code.index("(", match.start())) + 1, "(void)0")
        for match in re.finditer(r"<<<", code):
            end = code.index(">>>", match.end())
            yield mutation("stream of <<<>>>", code.rindex(",", match.end(), end), end, ", nullptr")
        for match in re.finditer(rf"\b({'|'.join(STREAM_LAST + STREAM_FIRST)})\(", code):
            opening = match.end() - 1
            places = arguments(code, opening, closing(code, opening))
            begin, end = places[-1] if match[1] in STREAM_LAST else places[0]
            yield mutation(f"stream of {match[1]}", begin, end, "nullptr" if match[1] in STREAM_FIRST else " nullptr")
        for match in re.finditer(r"ForEach\{stream\}", code):
            yield mutation("stream of ForEach", match.start(), match.end(), "ForEach{Stream(stream.device())}")
        for match in re.finditer(r"\b(cudaEventRecord|cudaEventSynchronize|cudaStreamWaitEvent|cudaStreamSynchronize)\(",
                                 code):
            yield mutation(match[1], match.start(), closing(code, match.end() - 1) + 1, "cudaSuccess")
    # A wait of giro's own, from a statement of its own: not the functions of that name.
    for match in re.finditer(r"(?<=[;{})\s])((?:[\w.>-]+(?:\(\))?(?:\.|->))?)(synchronize\(\)|wait\(\*?\w+\)|record\(\w+\));",
                             code):
        if "impl_->" in match[1] or match[1].startswith("changed_"):
            continue
        name = match[2][:match[2].index("(")]
        yield mutation(name, match.start(), match.end(), ";")


def run(command, folder, timeout=None):
    """Exit status and the end of the output; the status of `timeout` is 124."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                              check=False)
        return done.returncode, done.stdout.decode(errors="replace")[-3000:]
    except subprocess.TimeoutExpired:
        return 124, "it did not end"


class Tree:
    """The copy that is mutated and built."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        os.makedirs(folder, exist_ok=True)
        files = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
        for file in files.decode().split("\0"):
            source, copy = os.path.join(ROOT, file), os.path.join(folder, file)
            # What has not changed is not built again.
            if os.path.isfile(source) and not (os.path.exists(copy) and filecmp.cmp(source, copy, shallow=False)):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(source, copy)
        os.environ.update(CCACHE_BASEDIR=folder, CCACHE_NOHASHDIR="1")
        if not os.path.exists(os.path.join(folder, BUILD, "CMakeCache.txt")):
            # Not for CUDA: nvcc puts a hash of the file's path into kernels' names.
            launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            subprocess.run(["cmake", "--preset", "cuda-on-cpu", *launcher], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)

    def read(self, file):
        with open(os.path.join(self.folder, file), encoding="utf-8") as source:
            return source.read()

    def write(self, file, text):
        with open(os.path.join(self.folder, file), "w", encoding="utf-8") as source:
            source.write(text)

    def build(self, target):
        return run(["cmake", "--build", BUILD, "--target", target, "--parallel", str(self.jobs)], self.folder)

    def test(self, target, which):
        places = [os.path.join(self.folder, BUILD, "tests", place, target) for place in ("", "cuda_on_cpu")]
        program = next(place for place in places if os.path.exists(place))
        return run([program, f"--gtest_filter={which}", "--gtest_brief=1", "--gtest_fail_fast"], self.folder, TIMEOUT)


def concerned(file):
    return next(tests for pattern, tests in CONCERNED if fnmatch.fnmatch(file, pattern))


def verdict(tree, mutation):
    """caught by TARGET, survived, or does not compile."""
    original = tree.read(mutation.file)
    tree.write(mutation.file, original[:mutation.begin] + mutation.replacement + original[mutation.end:])
    try:
        for target, which in concerned(mutation.file):
            status, output = tree.build(target)
            if status != 0:
                return "does not compile", output
            status, output = tree.test(target, which)
            if status != 0:
                return f"caught by {target}", output
        return "survived", ""
    finally:
        tree.write(mutation.file, original)


def cost(mutation):
    """Cheap ones first: C++ before CUDA, headers last."""
    return [".cpp", ".cu", ".h", ".cuh"].index(os.path.splitext(mutation.file)[1]), mutation.file, mutation.begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutations and stop")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--tree", default=os.path.join(ROOT, "build-mutations"), metavar="FOLDER")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    files = [file for pattern in SOURCES for file in listed if fnmatch.fnmatch(file, pattern) and
             file.count("/") == pattern.count("/")]
    mutations = []
    for file in files:
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            mutations += mutations_of(file, source.read())
    name = lambda m: f"{m.file}:{m.line} {m.kind}"
    mutations = sorted((m for m in mutations if re.search(options.only, name(m))), key=cost)
    if options.list:
        print(*map(name, mutations), f"{len(mutations)} mutations", sep="\n")
        return 0

    tree = Tree(os.path.abspath(options.tree), options.jobs)
    results_path = os.path.join(tree.folder, "results.json")
    results = {}
    if os.path.exists(results_path) and not options.fresh:
        with open(results_path, encoding="utf-8") as file:
            results = json.load(file)
    digest = lambda m: hashlib.sha256(tree.read(m.file).encode()).hexdigest()[:16]

    needed = list(dict.fromkeys(test for mutation in mutations for test in concerned(mutation.file)))
    for target, which in needed:
        for step in (lambda: tree.build(target), lambda: tree.test(target, which)):
            status, output = step()
            if status != 0:
                sys.exit(f"{output}\n{target} does not build or pass without any mutation")

    for number, mutation in enumerate(mutations, 1):
        key = f"{name(mutation)} {mutation.begin} {digest(mutation)}"
        if key not in results:
            begun = time.monotonic()
            results[key], output = verdict(tree, mutation)
            with open(results_path + ".new", "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
            os.replace(results_path + ".new", results_path)
            seconds = time.monotonic() - begun
            print(f"{number}/{len(mutations)} {name(mutation)}: {results[key]} ({seconds:.0f} s)", flush=True)
            if results[key] == "does not compile":
                print(output)
    verdicts = [results[f"{name(m)} {m.begin} {digest(m)}"] for m in mutations]
    survivors = [name(m) for m, said in zip(mutations, verdicts) if said == "survived"]
    broken = verdicts.count("does not compile")
    print(f"caught {len(verdicts) - broken - len(survivors)} / {len(verdicts) - broken}, {broken} did not compile")
    print(*(f"survived: {survivor}" for survivor in survivors), sep="\n")
    return 1 if survivors or broken else 0


if __name__ == "__main__":
    sys.exit(main())
