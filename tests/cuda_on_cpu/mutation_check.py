#!/usr/bin/env python3
"""Removes each synchronisation, stream argument and error check of the CUDA backend in turn, moves each barrier and
fence too early, and runs the tests concerned on the emulation: they must fail.

usage: mutation_check.py [--list] [--only PATTERN] [--tree FOLDER] [--again | --fresh] [--jobs N]

Works in a copy of the tree, build-mutations/ by default, and keeps its build for the next time. Verdicts are kept in
results.json there: an interrupted run resumes where it stopped, and a mutation whose file has changed since runs
again; --again reruns the survivors, for instance after a test was written, and --fresh everything. --only selects the
mutations whose "FILE:LINE KIND" contains PATTERN, a regular expression. Mutations that do not compile are counted
separately. So are those that EXPLAINED says no test can see, which are not run.
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
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = "build-cuda-on-cpu"
SLOWER = 10  # time limit, in runs without a mutation: a test that hangs has noticed

# The tests that concern each file: (target, filter), the quickest to fail first.
ERRORS = ("cuda_on_cpu_error_checks_test", "*")
GPU = "*cuda*:*Cuda*:*CUDA*"
RUNTIME = ("runtime_test", GPU)
LOOP = ("loop_test", GPU)
CALLBACKS = ("callbacks_test", GPU)


def kernels(*suites):
    return ("kernels_test", ":".join(f"*{suite}Test*cuda*" for suite in suites))


CONCERNED = [  # first match
    ("runtime/cuda/*", [ERRORS, RUNTIME, LOOP]),
    ("runtime/files/*", [("runtime_files_test", "*")]),
    ("runtime/*", [("runtime_test", "*"), LOOP]),
    ("kernels/cuda/*_prelude.cpp", [ERRORS, kernels("Elementwise", "Reduce", "Publish", "Fused"),
                                    ("kernels_nn_test", "*RandomTest*cuda*"), LOOP]),
    ("kernels/cuda/conv2d.cpp", [ERRORS, kernels("Conv2d")]),
    ("kernels/cuda/cumulative.cu", [ERRORS, kernels("Cumulative")]),
    ("kernels/cuda/gather.cu", [ERRORS, kernels("Gather")]),
    ("kernels/cuda/[dm]*", [ERRORS, kernels("Dense")]),
    ("kernels/cuda/pool.cu", [ERRORS, kernels("Pool")]),
    ("kernels/cuda/scatter.cu", [ERRORS, kernels("Scatter")]),
    ("kernels/cuda/sort.cu", [ERRORS, kernels("Sort")]),
    ("kernels/cuda/row_tail.cpp", [ERRORS, kernels("Publish", "Fused"), LOOP]),
    ("kernels/cuda/softmax_cross_entropy.cu", [ERRORS, kernels("SoftmaxCrossEntropy")]),
    ("kernels/cuda/tiled_*", [ERRORS, kernels("Declined*")]),
    ("kernels/cuda/*", [ERRORS, kernels("Elementwise", "Update", "Gather")]),
    ("loop/*", [LOOP]),
    ("callbacks/*", [CALLBACKS]),
]
SOURCES = ["runtime/cuda/*.cpp", "runtime/cuda/*.h", "kernels/cuda/*.cpp", "kernels/cuda/*.h", "kernels/cuda/*.cuh",
           "kernels/cuda/*.cu", "runtime/*.cpp", "loop/*.cpp", "callbacks/*.cpp"]

# What no test can see here, by file, kind and source line, and why.
PAGEABLE = "copies from and to memory of the host that is not pinned have waited by themselves"
HOST_SEES = "the host sees what a kernel wrote once the kernel has ended, never earlier, and in order"
EXPLAINED = {
    ("callbacks/checkpoint.cpp", "synchronize", "state.stream().synchronize();"): PAGEABLE,
    ("runtime/cuda/device.cpp", "check",
     'if (current != device.index()) check(cudaSetDevice(device.index()), "cudaSetDevice");'):
        "the emulation has one device, which is always the current one",
    ("kernels/cuda/row_tail.cpp", "fence",
     'constexpr const char* kRelease = R"cuda(  asm volatile("fence.acq_rel.sys;" ::: "memory");'): HOST_SEES,
    ("kernels/cuda/sort.cu", "__syncthreads", "__syncthreads();  // before the memory is reused"):
        "a block sorts a second run only in a grid of more than 2^31 - 1 blocks",
    ("kernels/cuda/row_tail.cpp", "release made relaxed",
     'asm volatile("st.release.sys.s64 [%0], %1;" :: "l"(published), "l"(number + 1) : "memory");'): HOST_SEES,
}

# Replaces the file's text from begin to end. Reported as FILE:LINE KIND.
Mutation = collections.namedtuple("Mutation", "file line kind begin end replacement")

# Calls whose last argument is a stream, and calls whose first argument is.
STREAM_LAST = ("cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaGraphLaunch", "cublasLtMatmul",
               "cudnnSetStream")
STREAM_FIRST = ("cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaStreamBeginCaptureToGraph", "cudaStreamGetCaptureInfo")


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
        # A barrier or fence that comes too early: before the statement that it should follow.
        statement, barrier = r"(?P<indent> +)(?P<statement>[^\n{}]*;)", r"__(?P<name>syncthreads|threadfence\w*)\(\);"
        early = rf"(?<=\n){statement}\n(?P=indent){barrier}"
        for match in re.finditer(early, code):
            swapped = f"{match['indent']}__{match['name']}();\n{match['indent']}{match['statement']}"
            yield mutation(f"__{match['name']} too early", match.start(), match.end(), swapped)
        for match in re.finditer(r'asm volatile\("fence\.[\w.]+;" ::: "memory"\);', code):
            yield mutation("fence", match.start(), match.end(), ";")
        for match in re.finditer(r"(?<=\.)release(?=\.)", code):
            yield mutation("release made relaxed", match.start(), match.end(), "relaxed")
        # A statement that checks a call's status, not the declaration of check itself.
        for match in re.finditer(r"(?<=[;{})\s])check\(", code):
            if re.match(r"(cuda|cublas|cudnn)(Error_t|Status_t|Error)\b", code[match.end():]):
                continue
            close = closing(code, match.end() - 1)
            begin, end = arguments(code, match.end() - 1, close)[0]
            yield mutation("check", match.start(), close + 1, f"(void)({code[begin:end]})")
        for match in re.finditer(r"(?<=\s)check_launch\(\"", code):
            close = closing(code, code.index("(", match.start()))
            yield mutation("check_launch", match.start(), close + 1, "(void)0")
        for match in re.finditer(r"<<<", code):
            end = code.index(">>>", match.end())
            yield mutation("stream of <<<>>>", code.rindex(",", match.end(), end), end, ", nullptr")
        for match in re.finditer(rf"\b({'|'.join(STREAM_LAST + STREAM_FIRST)})\(", code):
            opening = match.end() - 1
            places = arguments(code, opening, closing(code, opening))
            begin, end = places[-1] if match[1] in STREAM_LAST else places[0]
            yield mutation(f"stream of {match[1]}", begin, end, "nullptr" if match[1] in STREAM_FIRST else " nullptr")
        for match in re.finditer(r"\bfor_each\(\s*stream\b", code):
            yield mutation("stream of for_each", match.start(), match.end(), "for_each(Stream(stream.device())")
        waits = "cudaEventRecord|cudaEventSynchronize|cudaStreamWaitEvent|cudaStreamSynchronize"
        for match in re.finditer(rf"\b({waits})\(", code):
            yield mutation(match[1], match.start(), closing(code, match.end() - 1) + 1, "cudaSuccess")
    # One of giro's own waits, as a whole statement: not the functions of that name.
    of, waits = r"(?:[\w.>-]+(?:\(\))?(?:\.|->))?", r"synchronize\(\)|wait\(\*?\w+\)|record\(\w+\)"
    for match in re.finditer(rf"(?<=[;{{}})\s])({of})({waits});", code):
        if "impl_->" in match[1] or match[1].startswith("changed_"):
            continue
        name = match[2][:match[2].index("(")]
        yield mutation(name, match.start(), match.end(), ";")


def run(command, folder, timeout=None, environment=None):
    """Exit status and the end of the output; the status of `timeout` is 124."""
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output.decode(errors="replace")[-3000:]
        except subprocess.TimeoutExpired:
            return 124, "it did not end"
        finally:
            # Ends the whole group: a compiler left running would write the mutation's object after the file is
            # restored.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()


class Tree:
    """The copy that is mutated and built."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        os.makedirs(folder, exist_ok=True)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for file in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
            source, copy = os.path.join(ROOT, file), os.path.join(folder, file)
            # Unchanged files are not built again.
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
        targets = [target, "cuda_on_cpu"]  # which holds the translated kernels
        return run(["cmake", "--build", BUILD, "--target", *targets, "--parallel", str(self.jobs)], self.folder)

    def test(self, target, which, timeout=None):
        places = [os.path.join(self.folder, BUILD, "tests", place, target) for place in ("", "cuda_on_cpu")]
        program = next(place for place in places if os.path.exists(place))
        emulation = os.path.join(self.folder, BUILD, "tests/cuda_on_cpu/libcuda_on_cpu.so")
        return run([program, f"--gtest_filter={which}", "--gtest_brief=1", "--gtest_fail_fast"], self.folder, timeout,
                   os.environ | {"LD_PRELOAD": emulation})


def concerned(file):
    return next(tests for pattern, tests in CONCERNED if fnmatch.fnmatch(file, pattern))


def verdict(tree, mutation, timeouts):
    """caught by TARGET, survived, or does not compile."""
    original = tree.read(mutation.file)
    tree.write(mutation.file, original[:mutation.begin] + mutation.replacement + original[mutation.end:])
    try:
        for target, which in concerned(mutation.file):
            status, output = tree.build(target)
            if status != 0:
                return "does not compile", output
            status, output = tree.test(target, which, timeouts[target, which])
            if status != 0:
                return f"caught by {target}", output
        return "survived", ""
    finally:
        tree.write(mutation.file, original)


def cost(mutation):
    """Sorts cheap ones first: C++, then CUDA, then the headers that everything includes."""
    kind = [".cpp", ".cu", ".cuh", ".h"].index(os.path.splitext(mutation.file)[1])
    return kind, mutation.kind == "stream of for_each", mutation.file, mutation.begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutations and stop")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--tree", default=os.path.join(ROOT, "build-mutations"), metavar="FOLDER")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    files = [file for pattern in SOURCES for file in listed if fnmatch.fnmatch(file, pattern) and
             file.count("/") == pattern.count("/")]
    mutations, explained = [], {}
    for file in files:
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            text = source.read()
        for mutation in mutations_of(file, text):
            why = EXPLAINED.get((file, mutation.kind, text.split("\n")[mutation.line - 1].strip()))
            if why is not None:
                explained[mutation] = why
            mutations.append(mutation)
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
        if options.again:
            results = {key: said for key, said in results.items() if said != "survived"}
    digest = lambda m: hashlib.sha256(tree.read(m.file).encode()).hexdigest()[:16]

    told = [mutation for mutation in mutations if mutation in explained]
    mutations = [mutation for mutation in mutations if mutation not in explained]
    key = lambda m: f"{name(m)} {m.begin} {digest(m)}"
    pending = [mutation for mutation in mutations if key(mutation) not in results]
    timeouts = {}
    for target, which in dict.fromkeys(test for mutation in pending for test in concerned(mutation.file)):
        status, output = tree.build(target)
        begun = time.monotonic()
        if status == 0:
            status, output = tree.test(target, which)
        if status != 0:
            sys.exit(f"{output}\n{target} does not build or pass without any mutation")
        timeouts[target, which] = max(60, SLOWER * (time.monotonic() - begun))

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # restores the file on the way out
    for number, mutation in enumerate(pending, 1):
        begun = time.monotonic()
        said, output = verdict(tree, mutation, timeouts)
        results[key(mutation)] = said
        with open(results_path + ".new", "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
        os.replace(results_path + ".new", results_path)
        seconds = time.monotonic() - begun
        print(f"{number}/{len(pending)} {name(mutation)}: {said} ({seconds:.0f} s)", flush=True)
        if said == "does not compile":
            print(output)
    verdicts = [results[key(mutation)] for mutation in mutations]
    survivors = [name(m) for m, said in zip(mutations, verdicts) if said == "survived"]
    broken = verdicts.count("does not compile")
    print(f"caught {len(verdicts) - broken - len(survivors)} / {len(verdicts) - broken}, {broken} did not compile, "
          f"{len(told)} explained")
    for survivor in survivors:
        print(f"survived: {survivor}")
    for mutation in told:
        print(f"explained: {name(mutation)}: {explained[mutation]}")
    return 1 if survivors or broken else 0


if __name__ == "__main__":
    sys.exit(main())
