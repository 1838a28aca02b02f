#!/usr/bin/env python3
"""Compares the overhead per chunk of jaxloop's outer loop and giro's, with one counting step per chunk.

usage: outer_loop_jaxloop.py --jaxloop DIR [--giro FILE] [--rounds N] [--chunks N]
"""

import argparse
import importlib.metadata
import itertools
import os
import pathlib
import statistics
import sys
import time

from google_benchmark import counter

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Jaxloop:
    """The equivalent of outer_loop_bench.cpp."""

    def __init__(self):
        import flax.linen as nn
        import jax
        from jaxloop import loop, outer_loop, step, train_loop

        class CountingStep(step.Step):
            def run(self, state, batch):
                return state.replace(step=state.step + 1), {}

        self.wait, self.loop, self.outer_loop, self.train_loop = jax.block_until_ready, loop, outer_loop, train_loop
        self.step = CountingStep(jax.random.PRNGKey(0), nn.Dense(1), train=True)
        self.state = self.step.initialize_model([1, 1])
        self.batch = {"x": jax.numpy.zeros((1, 1))}

    def outer_loop_chunks(self, chunks):
        loop = self.outer_loop.OuterLoop(train_loop=self.train_loop.TrainLoop(self.step))
        return loop(self.state, train_dataset=itertools.repeat(self.batch), train_total_steps=chunks,
                    train_loop_steps=1)[0]

    def plain_steps(self, chunks):
        return self.loop.Loop(self.step)(self.state, itertools.repeat(self.batch), chunks)[0]

    def seconds(self, case, chunks):
        begin = time.process_time()
        state = self.wait(getattr(self, case)(chunks))
        seconds = time.process_time() - begin
        assert int(state.step) == chunks
        return seconds / chunks


def describe(name, seconds):
    return (f"  {name:8} {statistics.median(seconds) * 1e6:8.2f} us, from {min(seconds) * 1e6:.2f} "
            f"to {max(seconds) * 1e6:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jaxloop", required=True, type=pathlib.Path, help="the folder that `jaxloop` is imported from")
    parser.add_argument("--giro", default=ROOT / "build-cpu/tests/bench/outer_loop_bench", help="giro's benchmark")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chunks", type=int, default=3000, help="jaxloop's, a round")
    args = parser.parse_args()
    if not (args.jaxloop / "jaxloop/outer_loop.py").is_file():
        parser.error(f"there is no jaxloop/outer_loop.py in {args.jaxloop}; PyPI's jaxloop is another program")

    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.path.insert(0, str(args.jaxloop))
    jaxloop = Jaxloop()
    cases = ("outer_loop_chunks", "plain_steps")
    for case in cases:  # compiles the step
        jaxloop.seconds(case, 100)
    times = {(name, case): [] for name in ("jaxloop", "giro") for case in cases}
    for _ in range(args.rounds):
        for case in cases:
            times["jaxloop", case].append(jaxloop.seconds(case, args.chunks))
            times["giro", case].append(counter(args.giro, case, "chunk"))

    print(f"JAX {importlib.metadata.version('jax')}, Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} "
          f"cores; CPU time, median and range of {args.rounds} rounds")
    measured = {name: times[name, cases[0]] for name in ("jaxloop", "giro")}
    overhead = {name: [chunk - step for chunk, step in zip(times[name, cases[0]], times[name, cases[1]])]
                for name in measured}
    for title, of in (("a chunk, the step included", measured), ("a chunk, less a step of a plain loop", overhead)):
        ratios = [theirs / ours for theirs, ours in zip(of["jaxloop"], of["giro"])]
        print(title)
        for name, seconds in of.items():
            print(describe(name, seconds))
        print(f"  ratio    {statistics.median(of['jaxloop']) / statistics.median(of['giro']):8.1f}, "
              f"from {min(ratios):.1f} to {max(ratios):.1f} in a round")


if __name__ == "__main__":
    main()
