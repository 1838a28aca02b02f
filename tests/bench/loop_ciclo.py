#!/usr/bin/env python3
"""Compares the overhead of ciclo's loop and giro's, with a trivial step and state, and eight callbacks.

usage: loop_ciclo.py [--bench FILE] [--rounds N] [--steps N]
"""

import argparse
import importlib.metadata
import pathlib
import statistics
import sys
import time

import ciclo
from google_benchmark import counter

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = 1000  # times less overhead, in the cases without logs: there both only loop


def step(state):
    return {}, state + 1


def step_and_log(state):
    logs = ciclo.logs()
    for name in ("loss", "accuracy", "learning_rate", "gradient_norm"):
        logs.add_metric(name, float(state))
    return logs, state + 1


def seldom(count):
    return {ciclo.every(100 * (i + 1)): step for i in range(count)}


# The cases of loop_bench.cpp by name, and whether the target applies to them.
CASES = {
    "all_seldom": (lambda: seldom(8), True),
    "one_each_step": (lambda: seldom(7) | {ciclo.every(1): step}, True),
    "four_entries_each_step": (lambda: seldom(7) | {ciclo.every(1): step_and_log}, False),
}


def ciclo_seconds(tasks, steps):
    begin = time.process_time()
    state, _, _ = ciclo.loop(0, range(steps), tasks, catch_keyboard_interrupt=False)
    seconds = time.process_time() - begin
    assert state >= steps / 100
    return seconds / steps


def describe(seconds):
    median = statistics.median(seconds)
    return f"{median * 1e9:10.1f} ns a step, from {min(seconds) * 1e9:.1f} to {max(seconds) * 1e9:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default=ROOT / "build-cpu/tests/bench/loop_bench", help="giro's benchmark")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000, help="ciclo's, a round")
    args = parser.parse_args()

    print(f"ciclo {importlib.metadata.version('ciclo')}, JAX {importlib.metadata.version('jax')}, "
          f"Python {sys.version.split()[0]}; CPU time, median and range of {args.rounds} rounds")
    times = {case: ([], []) for case in CASES}
    for tasks, _ in CASES.values():
        ciclo_seconds(tasks(), 100)
    for _ in range(args.rounds):
        for case, (tasks, _) in CASES.items():
            times[case][0].append(ciclo_seconds(tasks(), args.steps))
            times[case][1].append(counter(args.bench, case, "step"))
    missed = False
    for case, (theirs, ours) in times.items():
        ratio = statistics.median(theirs) / statistics.median(ours)
        missed = missed or (CASES[case][1] and ratio < TARGET)
        print(f"{case}\n  ciclo {describe(theirs)}\n  giro  {describe(ours)}\n  ratio {ratio:10.0f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
