#!/usr/bin/env python3
"""Compares a sample of giro with the same training in torch, torch.compile and jax, in f32 on the CPU.

usage: model_peers MODEL [--samples FOLDER] [--threads N] [--rounds N] [--steps N] [--peers torch compile jax]
                   [--wanted RATIO] [NAME=VALUE ...]

MODEL: gpt2 (tokens per second), rnnlm (tokens) or resnet (images). NAME=VALUE changes one of the SIZES in
the model's file. All take turns, round by round, on as many cores as threads. The first steps of each, which include
compilation, are not counted. Prints each one's highest rate, its loss after the first round, and giro's speedup over the
best peer. The exit code is 1 if the speedup is below the target.
"""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time


class Giro:
    def __init__(self, model, sizes, options, folder):
        self.command = [os.path.join(os.path.abspath(options.samples), options.model), "--device=cpu",
                        f"--steps={options.steps}", *model.giro(sizes, options.steps, folder)]
        self.folder = folder

    def measure(self):
        output = subprocess.run(self.command, cwd=self.folder, check=True, stdout=subprocess.PIPE).stdout.decode()
        result = json.loads(output[output.index("result: ") + len("result: "):])
        rate, = (value for name, value in result.items() if name in ("tokens_per_second", "images_per_second"))
        return rate, result["train_loss_last"]


class Peer:
    def __init__(self, step, items, steps):
        self.step, self.items, self.steps = step, items, steps
        for number in range(2):
            step(number).item()

    def measure(self):
        begin = time.perf_counter()
        for number in range(self.steps):
            loss = self.step(number)
        loss = loss.item()
        return self.steps * self.items / (time.perf_counter() - begin), loss


def torch_step(loss_at, optimizer, clip=lambda: None):
    def step(number):
        loss = loss_at(number)
        loss.backward()
        clip()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["gpt2", "rnnlm", "resnet"])
    parser.add_argument("sizes", nargs="*", metavar="NAME=VALUE", default=[])
    parser.add_argument("--samples", default="build/samples")
    for name, value in {"threads": 1, "rounds": 3, "steps": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peers", nargs="*", default=["torch", "compile", "jax"])
    parser.add_argument("--wanted", type=float, default=1.2)
    options = parser.parse_intermixed_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads:])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    model = importlib.import_module(options.model)
    changes = {name: int(value) for name, value in (size.split("=") for size in options.sizes)}
    if unknown := changes.keys() - model.SIZES.keys():
        parser.error(f"{options.model} has no size {', '.join(unknown)}, expected one of {', '.join(model.SIZES)}")
    sizes = argparse.Namespace(**{**model.SIZES, **changes})

    def peer(name):
        if name == "jax":
            return Peer(model.jax_step(sizes), model.items(sizes), options.steps)
        import torch
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        torch._dynamo.reset()
        compiled = torch.compile if name == "compile" else lambda module: module
        return Peer(torch_step(*model.torch_training(sizes, compiled)), model.items(sizes), options.steps)

    with tempfile.TemporaryDirectory() as folder:
        all_of_them = [Giro(model, sizes, options, folder)] + [peer(name) for name in options.peers]
        rounds = [[each.measure() for each in all_of_them] for _ in range(options.rounds)]
    rates = [max(rate for rate, _ in each) for each in zip(*rounds)]
    losses = [loss for _, loss in rounds[0]]  # later ones go on in a peer, but not in giro
    best = max(rates[1:], default=math.nan)
    print("| | giro | " + " | ".join(options.peers) + " | giro / best peer (wanted) |")
    print("|---" * (len(options.peers) + 3) + "|")
    print(f"| {model.ITEMS} per second | " + " | ".join(f"{rate:.4g}" for rate in rates) +
          f" | {rates[0] / best:.2f} ({options.wanted}) |")
    print("| first round's loss | " + " | ".join(f"{loss:.3f}" for loss in losses) + " | |", flush=True)
    sys.exit(rates[0] < options.wanted * best)


if __name__ == "__main__":
    main()
