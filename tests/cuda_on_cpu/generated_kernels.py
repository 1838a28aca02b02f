#!/usr/bin/env python3
"""Lists every generated kernel that the tests have run on the emulated GPU, as NVRTC and ptxas compile it for an H200:
registers, spills, stack, and how many accesses to global memory have 128 bits. Fails if a kernel spills, if one has a
stack for no known reason, or if there are no kernels.

usage: generated_kernels.py SOURCES TABLE PTXAS [SHARE]

SOURCES: the folder in which the emulation keeps the programs and their PTX. TABLE: the file to write. SHARE, 0 to 15:
calls ptxas only for this sixteenth of the kernels, and for all whose PTX has a stack or many values at once. For the
others the table has dashes.
"""

import collections
import ctypes
import glob
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# sin, cos and tan reduce large arguments modulo pi/2 with a table (f32) or function (f64) of CUDA's, which needs a
# stack.
SLOW_PATH, SLOW_STACK = re.compile("__cudart_i2opi_f|__internal_trig_reduction_slowpathd"), 40

SOURCE = re.compile(r"^(?=#ifndef GIRO_EXPRESSION_PRELUDE$)", re.M)
REDUCTIONS = "#ifndef GIRO_REDUCTION_PRELUDE"
KERNEL = re.compile(r"__global__ void __launch_bounds__\(\d+\) (\w+)\(")
FIGURES = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                     r"(\d+) bytes spill loads.*?Used (\d+) registers", re.S)
ENTRY = re.compile(r"\.entry (\w+)\(.*?^}", re.S | re.M)
ACCESS = re.compile(r"\b(?:ld|st)(?:\.\w+)*?\.global(?:\.[a-zA-Z]\w*)*?(?:\.v([248]))?\.[busf](\d+)\b")
SHARES = 16
# Of 746 kernels, those for which ptxas used more than half of a thread's registers had values for more than a third of
# them alive at once.
PART = 0.25
VALUE = re.compile(r"%([a-z]+)\d+")
WORDS = {"p": 0, "rd": 2, "fd": 2}  # of a value's name; others have one
JUMP = re.compile(r"\bbra(?:\.\w+)* +(\$\w+);")
THREADS = re.compile(r"\.maxntid (\d+)")
COLUMNS = ("kernel", "kind", "registers", "spills", "stack", "slow_path", "packs", "accesses")

Kernel = collections.namedtuple("Kernel", "registers spills stack slow_path packs accesses")


class Nvrtc:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: error {result}")

    def text(self, what, program):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, text)
        return text.value.decode()

    def compile(self, source, options):
        """Returns the log, and the PTX that the machine code was made from."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"giro.cu", 0, None, None)
        try:
            texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            result = self.library.nvrtcCompileProgram(program, len(options), texts)
            log = self.text("ProgramLog", program)
            if result != 0:
                raise RuntimeError(log)
            return log, self.text("PTX", program)
        finally:
            self.call("nvrtcDestroyProgram", ctypes.byref(program))


def measured(log, ptx):
    """The kernels by name."""
    text = {entry[1]: entry[0] for entry in ENTRY.finditer(ptx)}
    kernels = {}
    for name, stack, stores, loads, registers in FIGURES.findall(log):
        bits = [int(count or 1) * int(each) for count, each in ACCESS.findall(text[name])]
        is_slow = SLOW_PATH.search(text[name]) is not None
        kernels[name] = Kernel(int(registers), int(stores) + int(loads), int(stack), int(is_slow),
                               sum(n >= 128 for n in bits), len(bits))
    return kernels


def alive(text):
    """How many registers the values of a kernel need that are alive at once, in the order of its PTX."""
    first, last, labels, loops = {}, {}, {}, []
    for i, line in enumerate(text.split("\n")):
        if line.startswith("$") and line.endswith(":"):
            labels[line[:-1]] = i
        elif not line.lstrip().startswith("."):
            jump = JUMP.search(line)
            if jump is not None and jump[1] in labels:
                loops.append((labels[jump[1]], i))
            for value in VALUE.finditer(line):
                first.setdefault(value[0], i)
                last[value[0]] = i
    for begin, end in loops:
        for name, i in first.items():
            if i < begin <= last[name] < end:
                last[name] = end
    changes = collections.Counter()
    for name, i in first.items():
        words = WORDS.get(VALUE.match(name)[1], 1)
        changes[i] += words
        changes[last[name]] -= words
    count = most = 0
    for i in sorted(changes):
        count += changes[i]
        most = max(most, count)
    return most


def may_spill(text):
    """Whether a kernel with this PTX may need more registers than it has, or a stack."""
    threads = THREADS.search(text)
    most = min(255, 65536 // int(threads[1] if threads else 1024))
    return ".local" in text or SLOW_PATH.search(text) is not None or alive(text) > PART * most


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def programs(folder):
    found = sorted(glob.glob(os.path.join(folder, "*.cu")))
    if not found:
        raise SystemExit(f"{folder} contains no kernels: run the tests labelled cuda_on_cpu first")
    return found


def read_sources(folder):
    """Returns the sources by the names of their kernels, and the options that all are compiled with."""
    sources, options = {}, set()
    for path in programs(folder):
        first, text = read(path).split("\n", 1)
        options.add(" ".join(each for each in first[2:].split() if not each.startswith("--gpu-architecture=")))
        for part in SOURCE.split(text)[1:]:
            sources[tuple(KERNEL.findall(part))] = part
    if len(options) > 1:
        raise SystemExit(f"kernels are compiled with different options: {options}")
    return sources, options.pop().split()


def unmeasured(ptx):
    """The same columns as from measured(), with dashes for what only ptxas knows."""
    log = "".join(f"Compiling entry function '{entry[1]}' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill "
                  "loads Used 0 registers" for entry in ENTRY.finditer(ptx))
    return {name: kernel._replace(registers="-", spills="-", stack="-") for name, kernel in measured(log, ptx).items()}


def kernels_of(path, ptxas, share):
    """The kernels of a program by name."""
    ptx = read(path[:-2] + "ptx")
    number = int(os.path.basename(path)[:-3], 16)
    if share is not None and number % SHARES != share and not any(may_spill(e[0]) for e in ENTRY.finditer(ptx)):
        return unmeasured(ptx)
    architecture = re.search(r"--gpu-architecture=(sm_\w+)", read(path).split("\n", 1)[0])[1]
    done = subprocess.run([ptxas, "-v", f"-arch={architecture}", path[:-2] + "ptx", "-o", os.devnull], text=True,
                          stderr=subprocess.STDOUT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout)
    return measured(done.stdout, ptx)


def rows_of(folder, ptxas, share):
    kinds = {name: "rows" if REDUCTIONS in text else "elements"
             for names, text in read_sources(folder)[0].items() for name in names}
    kernels = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda path: kernels_of(path, ptxas, share), programs(folder)):
            kernels |= found
    return [[name, kind, *map(str, kernels[name])] for name, kind in sorted(kinds.items())]


def complaints(rows):
    for row in rows:
        at = dict(zip(COLUMNS, row))
        if at["registers"] == "-":
            continue
        if int(at["spills"]) > 0:
            yield f"{at['kernel']} spills {at['spills']} bytes"
        if int(at["stack"]) > (SLOW_STACK if int(at["slow_path"]) else 0):
            yield f"{at['kernel']} has {at['stack']} bytes of stack"


def summary(rows):
    column = {name: [int(row[i].replace("-", "0")) if i > 1 else row[i] for row in rows]
              for i, name in enumerate(COLUMNS)}
    measured_rows = sum(row[COLUMNS.index("registers")] != "-" for row in rows)
    yield (f"{len(rows)} generated kernels, of which ptxas compiled {measured_rows}; at most "
           f"{max(column['registers'])} registers")
    spills = [name.rpartition("_")[0] for name, n in zip(column["kernel"], column["spills"]) if n > 0]
    yield f"{len(spills)} spill{': ' if spills else ''}{', '.join(spills)}"
    yield (f"{sum(n > 0 for n in column['stack'])} have a stack, of up to {max(column['stack'])} bytes; "
           f"{sum(column['slow_path'])} compute sin, cos or tan")
    for kind in ("elements", "rows"):
        of_kind = [i for i, k in enumerate(column["kind"]) if k == kind]
        packs, accesses = (sum(column[name][i] for i in of_kind) for name in ("packs", "accesses"))
        moving = sum(column["packs"][i] > 0 for i in of_kind)
        yield (f"kernels of {kind}: {len(of_kind)}, of which {moving} move 128 bits at a time: {packs} of {accesses} "
               "accesses, where an array's last elements are moved one by one")


def main(folder, table, ptxas, share=None):
    rows = rows_of(folder, ptxas, share and int(share))
    lines = list(summary(rows))
    with open(table, "w", encoding="utf-8") as file:
        file.write("\n".join([*(f"# {line}" for line in lines), "\t".join(COLUMNS),
                              *("\t".join(row) for row in rows)]) + "\n")
    print("\n".join([*lines, f"each of them: {table}"]))
    return "\n".join(complaints(rows)) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
