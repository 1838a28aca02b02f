#!/usr/bin/python3
"""How gracefully the CPU backend degrades next to a busy process: the MNIST sample's cnn with one thread and with one
per CPU, alone and next to processes that only compute.

Prints milliseconds per step, as medians of interleaved rounds. Exits with 1 if, next to busy processes, all threads
take more than LIMIT times as long as one thread.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LIMIT = 1.3


def milliseconds(args, threads):
    env = dict(os.environ)
    if threads:
        env["OMP_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryDirectory() as logdir:
        command = [args.sample, "--model", "cnn", "--device", "cpu", "--batch", "32", "--steps", str(args.steps),
                   "--data", args.data, "--logdir", logdir]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    return 1000 / json.loads(out.stdout.strip().splitlines()[-1].removeprefix("result: "))["steps_per_second"]


def beside(busy, measure):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        return measure()
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", default=str(root / "build/samples/mnist"), help="giro's sample, built")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--busy", type=int, default=1, help="busy processes")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    cases = [(threads, busy) for busy in (0, args.busy) for threads in (1, None)]
    times = {case: [] for case in cases}
    for _ in range(args.rounds):
        for threads, busy in cases:
            times[threads, busy].append(beside(busy, lambda: milliseconds(args, threads)))
    for threads, busy in cases:
        print(f"{threads or 'all':>4} thread{'s' if threads is None else ''}, {busy} busy: "
              f"{statistics.median(times[threads, busy]):7.2f} ms a step")
    ratio = statistics.median(times[None, args.busy]) / statistics.median(times[1, args.busy])
    print(f"all threads against one, beside {args.busy}: {ratio:.2f} (at most {LIMIT})")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
