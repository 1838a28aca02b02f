#!/usr/bin/env python3
"""Compares a sample of giro with the same training in torch, torch.compile and jax, in f32 on the CPU.

usage: model_peers MODEL [--samples FOLDER] [--threads N] [--rounds N] [--steps N] [--peers torch compile jax]
                   [--wanted RATIO] [--memory] [NAME=VALUE ...]

MODEL: gpt2 (tokens per second), rnnlm (tokens) or resnet (images). NAME=VALUE changes one of the SIZES in
the model's file. All take turns, round by round, on as many cores as threads. The first steps of each, which include
compilation, are not counted. Prints each one's highest rate, its loss after the first round, and giro's speedup over the
best peer. The exit code is 1 if the speedup is below the target.

With --memory each trains for a few steps in a process of its own, one after the other, and giro logs every second step,
so that it has a step with logs and one without. Prints the peak of each one's resident memory, and giro's beside the
first peer's. The exit code is 1 if that ratio is above the target (default 0.82).
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


    def peak(self):
        return peak_of([each for each in self.command if not each.startswith("--log-every=")] + ["--log-every=2"],
                       self.folder)


def peak_of(command, folder):
    """Of a process' resident memory, in bytes."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1024 * usage.ru_maxrss


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


def compare_memory(own, peers, wanted):
    """own and peers: functions that return a peak, by name."""
    peaks = {name: peak() for name, peak in {"giro": own, **peers}.items()}
    ratio = peaks["giro"] / peaks[next(iter(peers))]
    print("| | " + " | ".join(peaks) + f" | giro / {next(iter(peers))} (wanted) |")
    print("|---" * (len(peaks) + 2) + "|")
    print("| peak of resident memory, MB | " + " | ".join(f"{peak / 1e6:.0f}" for peak in peaks.values()) +
          f" | {ratio:.2f} ({wanted}) |", flush=True)
    return ratio > wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["gpt2", "rnnlm", "resnet"])
    parser.add_argument("sizes", nargs="*", metavar="NAME=VALUE", default=[])
    parser.add_argument("--samples", default="build/samples")
    for name, value in {"threads": 1, "rounds": 3, "steps": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peers", nargs="*", default=["torch", "compile", "jax"])
    parser.add_argument("--wanted", type=float)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)  # train one peer, print nothing
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

    if options.alone:
        peer(*options.peers).measure()
        return
    if options.wanted is None:
        options.wanted = 0.82 if options.memory else 1.2
    with tempfile.TemporaryDirectory() as folder:
        if options.memory:
            here = [sys.executable, os.path.dirname(os.path.abspath(__file__)), options.model, *options.sizes, "--alone",
                    f"--threads={options.threads}", f"--steps={options.steps}", "--peers"]
            sys.exit(compare_memory(Giro(model, sizes, options, folder).peak, {
                name: lambda name=name: peak_of([*here, name], folder) for name in options.peers}, options.wanted))
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
