#!/usr/bin/python3
"""Compares the MNIST sample with PyTorch on the CPU: the same models, data, batch and optimizer, one thread each.

Each round trains giro's sample and PyTorch in turn, each in a process of its own, from a seed of the round's own.
Prints the loss curves, then steps per second and their ratios; exits with 1 if the curves disagree or a ratio misses
its target. Needs a Python with torch and numpy (Debian's python3-torch is enough).
"""

import argparse
import csv
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BATCH, LEARNING_RATE, WEIGHT_DECAY = 32, 1e-3, 1e-4
WINDOWS = 10
# How far apart two windows' mean losses may lie, in standard errors of their difference.
MAX_DEVIATION = 4
TARGETS = {"linear": 3.0, "cnn": 0.8}
STEPS = {"linear": 5000, "cnn": 500}


def read_idx(data, name, header):
    import numpy as np

    path = pathlib.Path(data) / name
    raw = gzip.open(f"{path}.gz").read() if not path.exists() else path.read_bytes()
    return np.frombuffer(raw, np.uint8, offset=header)


def torch_model(name):
    import torch
    from torch import nn

    def init(layer):
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            # lecun_normal: truncated at two standard deviations, then scaled back to variance 1 / fan_in.
            fan_in = layer.weight[0].numel()
            std = math.sqrt(1 / fan_in) / 0.87962566103423978
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
            nn.init.zeros_(layer.bias)

    if name == "linear":
        model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
    else:
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(7 * 7 * 64, 256), nn.ReLU(), nn.Linear(256, 10))
    # The faster layout of its convolutions on a CPU.
    return model.apply(init).to(memory_format=torch.channels_last)


def train_torch(name, steps, seed, data):
    """Returns the losses, the seconds that the steps took, and the BLAS in use."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images = torch.from_numpy(read_idx(data, "train-images-idx3-ubyte", 16).copy()).view(-1, 1, 28, 28)
    labels = torch.from_numpy(read_idx(data, "train-labels-idx1-ubyte", 8).astype("int64"))

    def train(steps):
        model = torch_model(name)
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        losses, order, position = [], torch.randperm(len(images)), 0
        start = time.perf_counter()
        for _ in range(steps):
            if position + BATCH > len(images):
                order, position = torch.randperm(len(images)), 0
            rows = order[position:position + BATCH]
            position += BATCH
            loss = torch.nn.functional.cross_entropy(model(images[rows].float() / 255), labels[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, time.perf_counter() - start

    train(10)  # what the first call of everything costs is no part of the comparison
    losses, seconds = train(steps)
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    blas = sorted({word for word in maps if "blas" in pathlib.Path(word).name.lower()})
    return {"losses": losses, "seconds": seconds, "blas": blas, "torch": torch.__version__}


def run_torch(args, name, steps, seed):
    command = [sys.executable, __file__, "--torch", name, "--steps", str(steps), "--seed", str(seed), "--data", args.data]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread(args.blas)).stdout
    return json.loads(out)


def run_giro(args, name, steps, seed):
    with tempfile.TemporaryDirectory() as logdir:
        command = [args.sample, "--model", name, "--device", "cpu", "--batch", str(BATCH), "--steps", str(steps),
                   "--seed", str(seed), "--data", args.data, "--logdir", logdir]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread()).stdout
        result = json.loads(out.strip().splitlines()[-1].removeprefix("result: "))
        with open(pathlib.Path(logdir) / "history.csv") as file:
            losses = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
    if len(losses) != steps:
        sys.exit(f"history.csv holds {len(losses)} losses of {steps} steps")
    return {"losses": losses, "seconds": steps / result["steps_per_second"]}


def one_thread(blas=None):
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    if blas:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [blas, env.get("LD_LIBRARY_PATH")]))
    return env


def squared_error(rounds):
    """Squared standard error of a window's mean loss over all rounds: from their spread, but no less than the batches'."""
    means = [statistics.fmean(window) for window in rounds]
    between = statistics.variance(means) / len(means)
    within = statistics.fmean(statistics.variance(window) / len(window) for window in rounds) / len(rounds)
    return max(between, within)


def curves_agree(name, giro, torch):
    print(f"\n{name}: mean loss of {WINDOWS} windows and of the whole run\n{'steps':>13} {'giro':>8} {'torch':>8} {'deviation':>10}")
    agree, steps = True, len(giro[0]["losses"])
    size = steps // WINDOWS
    for begin, end in [*((i, i + size) for i in range(0, size * WINDOWS, size)), (0, steps)]:
        ours, theirs = ([run["losses"][begin:end] for run in runs] for runs in (giro, torch))
        a, b = (statistics.fmean(map(statistics.fmean, rounds)) for rounds in (ours, theirs))
        deviation = (a - b) / math.sqrt(squared_error(ours) + squared_error(theirs))
        agree &= abs(deviation) <= MAX_DEVIATION  # false for NaN
        print(f"{begin + 1:>6}-{end:<6} {a:8.4f} {b:8.4f} {deviation:+10.1f}")
    print("the curves agree" if agree else f"THE CURVES DISAGREE by more than {MAX_DEVIATION} standard errors")
    return agree


def compare(args):
    ok, rows = True, []
    for name in args.models:
        steps, giro, torch = args.steps or STEPS[name], [], []
        for seed in range(args.rounds):
            giro.append(run_giro(args, name, steps, seed))
            torch.append(run_torch(args, name, steps, seed))
        if name == args.models[0]:
            print(f"torch {torch[0]['torch']}, BLAS {' '.join(torch[0]['blas']) or 'built in'}; batch {BATCH}, one thread "
                  f"each, {args.rounds} interleaved rounds")
        ok &= curves_agree(name, giro, torch)
        speeds = [sorted(steps / run["seconds"] for run in runs) for runs in (giro, torch)]
        ratio = statistics.median(speeds[0]) / statistics.median(speeds[1])
        ok &= ratio >= TARGETS[name]
        rows.append([name, *(f"{statistics.median(s):.1f} ({s[0]:.1f}-{s[-1]:.1f})" for s in speeds),
                     f"{ratio:.2f}", f"{TARGETS[name]:.1f}", "met" if ratio >= TARGETS[name] else "MISSED"])
    print("\nsteps per second, median (lowest-highest)")
    for row in [["model", "giro", "torch", "ratio", "target", ""], *rows]:
        print("{:8} {:>30} {:>30} {:>7} {:>7} {}".format(*row).rstrip())
    return ok


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", default=str(root / "build/samples/mnist"), help="giro's sample, built")
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help=f"of a run; default {STEPS}")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--blas", help="folder of a libblas.so.3 for PyTorch to use instead of the system's")
    parser.add_argument("--torch", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        print(json.dumps(train_torch(args.torch, args.steps, args.seed, args.data)))
        return 0
    if args.rounds < 2:
        parser.error("--rounds must be at least 2, to know the spread")
    return 0 if compare(args) else 1


if __name__ == "__main__":
    sys.exit(main())
