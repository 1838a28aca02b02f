#!/usr/bin/env python3
"""Trains a sample, gpt2, resnet or rnnlm, on the CPU and on the emulated GPU, on one rank and on two, and compares all
losses.

usage: sample_losses.py PRELOAD SAMPLE [MPIRUN...]

PRELOAD: the emulation, for LD_PRELOAD. SAMPLE: the executable.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "samples"))
from sample_runs import command_of, history

DTYPES = ("f32", "bf16")
# With a higher learning rate, Adam would amplify the rounding errors of small gradients.
DEFAULTS = {
    "gpt2": {"layers": 2, "heads": 2, "width": 32, "context": 8, "batch": 4, "steps": 6, "learning_rate": 1e-3,
             "warmup": 3, "log_every": 1, "validate_every": 3, "sample_every": 0, "checkpoint_every": 0},
    "resnet": {"features": 2, "batch": 4, "steps": 2, "learning_rate": 1e-3, "evaluate_every": 0, "checkpoint_every": 0},
    "rnnlm": {"batch": 4, "length": 6, "width": 8, "steps": 4, "checkpoint_every": 1},
}
# What two ranks run.
MODES = (("data", "f32"), ("zero", "f32"), ("data", "bf16"))
# What also writes a text, which takes the emulated GPU longer than to train.
WITH_TEXT = ((None, "f32"), ("zero", "f32"))
PARTITIONS = {"gpt2": MODES, "resnet": (("zero", "f32"),), "rnnlm": MODES}
# Relative: a few units in the last place of f32, and an eighth of one of bf16, since a loss is a mean, in f32. A ResNet
# rounds to bf16 in 20 layers, one after the other.
TOLERANCES = {"gpt2": (5e-7, 2**-11), "resnet": (5e-7, 2**-7), "rnnlm": (5e-7, 2**-11)}


def losses(sample, logdir, launcher=(), preload=None, **options):
    """The training losses, then the validation losses. None if the device does not support the dtype."""
    command = command_of(sample, {**DEFAULTS[pathlib.Path(sample).name], "logdir": logdir}, options)
    if preload:
        command = ["env", f"LD_PRELOAD={preload}", *command]  # not for mpirun, which uses no GPU
    result = subprocess.run([*launcher, *command], capture_output=True, text=True, errors="replace", check=False)
    if "cpu does not support" in result.stderr:
        return None
    if result.returncode != 0:
        raise SystemExit(f"{logdir.name}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    columns = history(logdir)
    return [float(loss) for name in columns if "loss" in name for loss in columns[name] if loss]


def main(preload, sample, *mpirun):
    failed = False

    def compare(name, found, expected, tolerance):
        nonlocal failed
        worst = max(abs(a - b) / b for a, b in zip(found, expected))
        # Not by `worst`: max() passes over a NaN.
        good = len(found) == len(expected) and all(abs(a - b) <= tolerance * b for a, b in zip(found, expected))
        print(f"{name}: {len(found)} losses differ by {worst:.1e} at most: {'ok' if good else 'WRONG'}", flush=True)
        failed = failed or not good

    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent)
        generator = random.Random(0)
        words = "loss step batch graph stream tensor".split()
        (folder / "text").write_text(" ".join(generator.choice(words) for _ in range(400)), encoding="ascii")

        def train(name, **options):
            data = {} if pathlib.Path(sample).name == "resnet" else {"data": folder / "text"}
            return losses(sample, folder / name, **data, **options)

        def text(partition, dtype):
            is_gpt2 = pathlib.Path(sample).name == "gpt2"
            return {"sample_every": 5} if is_gpt2 and (partition, dtype) in WITH_TEXT else {}

        expected = {}
        tolerances = dict(zip(DTYPES, TOLERANCES[pathlib.Path(sample).name]))
        for dtype, tolerance in tolerances.items():
            expected[dtype] = train(f"cpu_{dtype}", device="cpu", dtype=dtype)
            if expected[dtype] is None:
                print(f"this CPU does not support {dtype}: compared with f32")
                expected[dtype] = expected["f32"]
            compare(dtype, train(dtype, device="cuda", dtype=dtype, preload=preload, **text(None, dtype)),
                    expected[dtype], tolerance)
        for partition, dtype in PARTITIONS[pathlib.Path(sample).name] if mpirun else ():
            found = train(f"{partition}_{dtype}", device="cuda", partition=partition, dtype=dtype, preload=preload,
                          launcher=(*mpirun, "-n", "2"), **text(partition, dtype))
            compare(f"2 ranks, {partition}, {dtype}", found, expected[dtype], tolerances[dtype])
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
