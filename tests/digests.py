#!/usr/bin/env python3
"""Digests of what giro computes, to the bit: of two builds, before and after a change that should change no number.

usage: digests.py BUILD FILE             writes a line for each result of a build of the whole project
       digests.py compare BEFORE AFTER   names the results that differ; the exit status is 1 if there are any

A result is what a program computes in one way, on one device: each op, loss and layer that is compared with JAX, with
its gradients, and trained for some steps; optimizers; random expressions; the samples, with the state that they leave.
The ways: recorded with the rules, without any (GIRO_REWRITE=0), with a block for each temporary (GIRO_ARENA=0), and
eager. The devices: the CPU and, if the build has it, the emulated GPU. Both files must come from one machine, since
oneDNN and the vector code are chosen by its CPU.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "samples"))
from sample_runs import command_of, history, last_tensors

WAYS = {"recorded": {}, "without rules": {"GIRO_REWRITE": "0"}, "without arena": {"GIRO_ARENA": "0"}}
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
TEXT = {"data": "TEXT", "steps": 6}  # a file that is written for the run
SAMPLES = {
    "gpt2": TEXT | {"layers": 2, "heads": 2, "width": 32, "context": 8, "batch": 4, "log_every": 1, "validate_every": 3,
                    "sample_every": 0},
    "rnnlm": TEXT | {"batch": 4, "length": 6, "width": 8},
    "resnet": {"features": 2, "batch": 4, "steps": 2, "evaluate_every": 0},
    "mnist": {"data": str(DATA), "model": "cnn", "steps": 5},
}


def digest(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()[:16]


def run(command, environment):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, env=os.environ | environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr.decode()[-2000:]}")
    return done.stdout.decode()


def lines_of(program, *arguments):
    """The results of a program that writes one a line."""
    def results(environment):
        for number, line in enumerate(run([program, *arguments], environment).splitlines()):
            name = line.split("\t")[0] if "\t" in line else line.split('"name": "')[-1].split('"')[0][:60]
            yield f"{number}, {name}", digest(line)
    return results


def sample(program, options):
    def results(environment):
        with tempfile.TemporaryDirectory() as folder:
            text, logdir = pathlib.Path(folder, "text"), pathlib.Path(folder, "log")
            words = random.Random(0).choices("loss step batch graph stream tensor".split(), k=400)
            text.write_text(" ".join(words), encoding="ascii")
            given = {name: text if value == "TEXT" else value for name, value in options.items()}
            own = {"logdir": logdir, "checkpoint_every": options["steps"]}
            run(command_of(program, given, own), environment)
            for name, values in history(logdir).items():
                yield name, digest(" ".join(values))
            for name, tensors in last_tensors(logdir, options["steps"]).items():
                yield name, digest(tensors)
    return results


def jobs(build, device):
    """What is run on a device: (name, way, environment, results)."""
    tests, samples = build / "tests", build / "samples"
    few = 20 if device == "cuda" else 300
    for way, environment in WAYS.items():
        yield "write_cases", way, environment, lines_of(tests / "write_cases", device)
        yield "write_optimizers", way, environment, lines_of(tests / "write_optimizers", device)
        yield "write_programs", way, environment, lines_of(tests / "write_programs", 1, few, device)
        yield "write_steps", way, environment, lines_of(tests / "write_steps", device, "jit")
        for name, options in SAMPLES.items():
            if name != "mnist" or DATA.exists():
                yield name, way, environment, sample(samples / name, options | {"device": device})
    yield "write_steps", "eager", {}, lines_of(tests / "write_steps", device, "eager")


def write(build, file):
    build = pathlib.Path(build).resolve()
    emulation = build / "tests/cuda_on_cpu/libcuda_on_cpu.so"
    devices = {"cpu": {}} | ({"cuda": {"LD_PRELOAD": str(emulation)}} if emulation.exists() else {})
    todo = [(device, preload, *job) for device, preload in devices.items() for job in jobs(build, device)]

    def results_of(job):
        device, preload, name, way, environment, results = job
        own = {"OMP_NUM_THREADS": "1"} | environment | preload
        return [f"{value}\t{name}, {device}, {way}: {what}\n" for what, value in results(own)]

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, open(file, "w") as out:
        count = 0
        for lines in pool.map(results_of, todo):
            out.writelines(lines)
            count += len(lines)
    print(f"{count} results")
    return count == 0


def compare(before, after):
    def read(file):
        with open(file, encoding="utf-8") as lines:
            return dict(reversed(line.rstrip("\n").split("\t", 1)) for line in lines)

    old, new = read(before), read(after)
    wrong = [f"missing: {name}" for name in old if name not in new]
    wrong += [f"new: {name}" for name in new if name not in old]
    wrong += [f"differs: {name}" for name, value in old.items() if new.get(name, value) != value]
    print("\n".join(wrong) or f"{len(old)} results are the same")
    return bool(wrong) or not old


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    sys.exit(write(*sys.argv[1:]) if len(sys.argv) == 3 else __doc__)
