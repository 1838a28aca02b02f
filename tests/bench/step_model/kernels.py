"""Analyzes kernels for an H200 (sm_90) with ptxas. The inputs come from a build with the emulated GPU: the sources of
generated kernels, and the PTX for compute capability 8.0 in the object files of the .cu files."""

import collections
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

from h200 import Kernel

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/cuda_on_cpu"), str(ROOT / "tests/cuda_on_cpu/ptx")]
import generated_kernels as generated  # noqa: E402
import module  # noqa: E402

# Includes other instructions that ptxas turns into MEMBAR.
DEVICE_FENCE = re.compile(r"\b(?:membar\.gl|(?:fence\.(?:sc|acq_rel)|atom\.acq_rel)\.gpu)\b")
SYSTEM_FENCE = re.compile(r"\b(?:membar\.sys|(?:fence\.(?:sc|acq_rel)|st\.release)\.sys)\b")
BARRIER = re.compile(r"\b(?:bar|barrier)\.(?:cta\.)?(?:sync|red)")
LABEL, BRANCH = re.compile(r"^(\$\w+):", re.M), re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+ )?[a-z][\w.]*\s[^\n]*;", re.M)
PRODUCT = re.compile(r"\bmma\.sync\.aligned\.m16n8k16\b")
ANY_ENTRY = re.compile(r"^(?:\.visible |\.weak )?" + generated.ENTRY.pattern, re.M | re.S)
PASS = re.compile(r"\bgather<\d+>\((x\d+)")


class Kernels:
    def __init__(self, build, nvrtc, ptxas):
        self.build, self.nvrtc, self.ptxas = pathlib.Path(build), generated.Nvrtc(nvrtc), ptxas

    def measure(self, names):
        """The kernels by name."""
        own = {name for name in names if name.startswith("_Z")}
        return {name: self.of_file(name) for name in own} | self.generated(frozenset(names - own))

    @functools.cache
    def files(self):
        """The PTX of each object: all that is no kernel, and its kernels by mangled name."""
        folder = self.build / "CMakeFiles/giro.dir/kernels/cuda"
        newest_first = sorted(folder.glob("*.cu.o"), key=lambda path: path.stat().st_mtime, reverse=True)
        texts = [module.read(path) for path in newest_first]
        return [(ANY_ENTRY.sub("", text), {entry[1]: entry[0] for entry in ANY_ENTRY.finditer(text)}) for text in texts]

    @functools.cache
    def of_file(self, name):
        """The kernel of this mangled name, without the others of its file."""
        ptx = next(shared + kernels[name] for shared, kernels in self.files() if name in kernels)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(ptx)
            file.flush()
            done = subprocess.run([self.ptxas, "-arch=sm_90", "-v", "-o", "/dev/null", file.name], capture_output=True,
                                  text=True, check=True)
        return figures(done.stderr, ptx)[name]

    @functools.cache
    def generated(self, names):
        if not names:
            return {}
        sources, options = self.sources()
        texts = [text for kernels, text in sources.items() if names & set(kernels)]
        log, ptx = self.nvrtc.compile("".join(texts), ["--gpu-architecture=sm_90", "--ptxas-options=-v", *options])
        found = figures(log, ptx)
        source = "".join(texts)
        return {name: found[name]._replace(passes=passes(source, name)) for name in names}

    def sources(self):
        return generated.read_sources(str(self.build / "tests/cuda_on_cpu/compiled/sources"))


def passes(source, name):
    """The number of times that a generated row kernel reads its most-read input."""
    body = re.search(rf"\b{name}\(.*?^}}", source, re.S | re.M)[0]
    return max(collections.Counter(PASS.findall(body)).values(), default=1)


def figures(log, ptx):
    texts = {entry[1]: entry[0] for entry in generated.ENTRY.finditer(ptx)}
    found = {}
    for name, stack, stores, loads, registers in generated.FIGURES.findall(log):
        text = texts[name]
        found[name] = Kernel(registers=int(registers), stack=int(stack), spills=int(stores) + int(loads),
                             slow_path=generated.SLOW_PATH.search(text) is not None, load_bytes=load_bytes(text),
                             instructions=instructions_a_byte(text), device_fences=len(DEVICE_FENCE.findall(text)),
                             system_fences=len(SYSTEM_FENCE.findall(text)), barriers=len(BARRIER.findall(text)),
                             instructions_a_product=instructions_a_product(text))
    return found


def load_bytes(text):
    return sum(int(access[1] or 1) * int(access[2]) // 8 for access in generated.ACCESS.finditer(text)
               if access[0].startswith("ld"))


def main_loop(text, work):
    """The shortest loop with the most of work(loop), or the whole kernel if no loop has any."""
    labels = {label[1]: label.end() for label in LABEL.finditer(text)}
    loops = [text[labels[branch[1]]:branch.end()] for branch in BRANCH.finditer(text)
             if labels.get(branch[1], len(text)) < branch.start()]
    most = max([*loops, ""], key=lambda loop: (work(loop), -len(loop)))
    return most if work(most) else text


def instructions_a_byte(text):
    """Instructions per byte loaded, in the loop that loads most. In the cnn's kernels ptxas emits 0.8 to 1 times as
    many."""
    body = main_loop(text, load_bytes)
    return len(INSTRUCTION.findall(body)) / max(1, load_bytes(body))


def products(text):
    return len(PRODUCT.findall(text))


def instructions_a_product(text):
    body = main_loop(text, products)
    return len(INSTRUCTION.findall(body)) / products(body) if products(body) else 0


def complaint(name, kernel):
    if kernel.spills:
        return f"{name} spills {kernel.spills} bytes"
    if kernel.stack > (generated.SLOW_STACK if kernel.slow_path else 0):
        return f"{name} has {kernel.stack} bytes of stack"
    return None
