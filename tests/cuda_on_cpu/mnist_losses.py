#!/usr/bin/env python3
"""Trains the MNIST sample on the CPU and on the emulated GPU and compares the losses of every step.

usage: mnist_losses.py PRELOAD SAMPLE [DATA]

PRELOAD: the emulation, for LD_PRELOAD. SAMPLE: the executable. DATA: folder of the four IDX files, gzipped; a small
part of them is used. If it does not exist, nothing is compared, and the status is 77.
"""

import csv
import gzip
import os
import struct
import subprocess
import sys
import tempfile

STEPS = {"linear": 30, "cnn": 3}
TRAIN_ROWS, TEST_ROWS = 1000, 200
TOLERANCE = 1e-6  # relative: some units in the last place of f32, after up to 30 steps


def cut(source, target, rows):
    """Copies the first rows of an IDX file."""
    with gzip.open(source) as file:
        magic, _ = struct.unpack(">II", file.read(8))
        sides = file.read(4 * (magic % 256 - 1))
        row_bytes = 1
        for (side,) in struct.iter_unpack(">I", sides):
            row_bytes *= side
        with gzip.open(target, "wb", compresslevel=1) as out:
            out.write(struct.pack(">II", magic, rows) + sides + file.read(rows * row_bytes))


def losses(preload, sample, data, logdir, model, device):
    command = [sample, "--device", device, "--model", model, "--steps", str(STEPS[model]), "--data", data,
               "--logdir", logdir]
    environment = os.environ | ({"LD_PRELOAD": preload} if device == "cuda" else {})
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    with open(os.path.join(logdir, "history.csv"), newline="", encoding="utf-8") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def main():
    preload, sample = sys.argv[1:3]
    source = sys.argv[3] if len(sys.argv) > 3 else "/usr/share/datasets/fashion-mnist"
    if not os.path.isdir(source):
        print(f"skipped: there is no {source}: package dataset-fashion-mnist is not installed")
        return 77
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
            file = name + "-ubyte.gz"
            rows = TRAIN_ROWS if name.startswith("train") else TEST_ROWS
            cut(os.path.join(source, file), os.path.join(folder, file), rows)
        for model, steps in STEPS.items():
            cpu, cuda = (losses(preload, sample, folder, os.path.join(folder, model, device), model, device)
                         for device in ("cpu", "cuda"))
            worst = max(abs(a - b) / a for a, b in zip(cpu, cuda))
            # Not by `worst`: max() passes over a NaN.
            good = len(cpu) == len(cuda) == steps and all(abs(a - b) <= TOLERANCE * a for a, b in zip(cpu, cuda))
            print(f"{model}: {len(cuda)} steps, losses differ by {worst:.1e} at most: {'ok' if good else 'WRONG'}")
            failed = failed or not good
    return failed


if __name__ == "__main__":
    sys.exit(main())
