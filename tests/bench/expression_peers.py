#!/usr/bin/env python3
"""Compares expression_bench with torch.compile, with and without max-autotune, and with jax.jit, in f32.

usage: expression_peers.py [--bench FILE] [--threads N] [--rounds N] [--seconds S] [--peers torch max-autotune jax]
                           [--cases REGEX]

All take turns, case by case and round by round, on as many cores as threads, by default one. Prints each one's minimum
time in microseconds (CPU time on one core, otherwise wall time) and giro's speedup over the best peer. On one core, for
data in memory, it also prints giro's bandwidth relative to memcpy in the same run.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time

# Case, function, shape, target ratio, and the bytes to move if it is memory-bound.
MEMORY = 1 << 26
CASES = [
    ("chain_of_20/65536", "chain", (1 << 16,), 0.8, 0),
    (f"chain_of_20/{MEMORY}", "chain", (MEMORY,), 1.0, 12 * MEMORY),
    ("gelu/65536", "gelu", (1 << 16,), 1.0, 0),
    (f"gelu/{MEMORY}", "gelu", (MEMORY,), 1.0, 8 * MEMORY),
    ("gelu_gradient/65536", "gelu_gradient", (1 << 16,), 1.0, 0),
    ("softmax/64/1024", "softmax", (64, 1024), 1.0, 0),
    ("softmax/1024/1024", "softmax", (1024, 1024), 1.0, 0),
    ("softmax/64/32768", "softmax", (64, 32768), 1.0, 0),
    ("softmax/16384/1024", "softmax", (16384, 1024), 1.0, 8 << 24),
    ("layer_norm/128/768", "layer_norm", (128, 768), 1.0, 0),
    ("layer_norm/1024/768", "layer_norm", (1024, 768), 1.0, 0),
    ("layer_norm/16384/768", "layer_norm", (16384, 768), 1.0, 8 * 16384 * 768),
    ("layer_norm_gradient/128/768", "layer_norm_gradient", (128, 768), 1.0, 0),
    ("layer_norm_gradient/1024/768", "layer_norm_gradient", (1024, 768), 1.0, 0),
    ("layer_norm_gradient/16384/768", "layer_norm_gradient", (16384, 768), 1.0, 12 * 16384 * 768),
    ("sum_of_rows", "sum_of_rows", (1024, 1024), 1.0, 0),
    ("sum_of_columns", "sum_of_columns", (1024, 1024), 1.0, 0),
    ("sum_of_all", "sum_of_all", (MEMORY,), 1.0, 4 * MEMORY),
    ("adamw/124000000", "adamw", (124_000_000,), 1.0, 28 * 124_000_000),
]
BYTES_OF_COPY = 8 * MEMORY


def chain(x, y, maximum):
    for k in range(5):
        x = maximum(x * (0.9 + 0.01 * k) + y, -1.0 - 0.1 * k) - 0.1 * k
    return x


def gelu(x, tanh):
    return 0.5 * x * (tanh((x + 0.044715 * (x * x * x)) * 0.7978845608028654) + 1)


def layer_norm(x, s, o, rsqrt):
    d = x - x.mean(-1)[:, None]
    return d * rsqrt((d * d).mean(-1)[:, None] + 1e-5) * s + o


def adamw(p, g, m, v, step, rate, sqrt):
    m = m + 0.1 * (g - m)
    v = v + 0.001 * (g * g - v)
    denominator = sqrt(v / (1 - 0.999**step)) + 1e-8
    return p - rate * (m / (1 - 0.9**step) / denominator + 0.01 * p), m, v


def inputs_of(function, shape, normal):
    """The function's input arrays."""
    rows = {"layer_norm": 2, "layer_norm_gradient": 2}.get(function, 0)
    wholes = {"chain": 2, "gelu_gradient": 2, "layer_norm_gradient": 2, "adamw": 4}.get(function, 1)
    return [normal(shape) for _ in range(wholes)] + [normal(shape[-1:]) for _ in range(rows)]


class Giro:
    def __init__(self, bench, threads, seconds):
        self.bench, self.seconds = bench, seconds
        self.time = "cpu_time" if threads == 1 else "real_time"

    def prepare(self, name, function, shape):
        command = [self.bench, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
                   f"--benchmark_min_time={self.seconds}"]

        def measured():
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            return json.loads(output)["benchmarks"][0][self.time]

        return measured


def timed(call, threads, seconds):
    """Measures the mean time of a call, as Google Benchmark does."""
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(2):
        call()

    def measured():
        calls, begin, end = 0, clock(), time.perf_counter() + seconds
        while calls == 0 or time.perf_counter() < end:
            call()
            calls += 1
        return (clock() - begin) / calls * 1e6

    return measured


class Torch:
    def __init__(self, mode, *how_long):
        import torch

        torch.set_num_threads(how_long[0])
        self.torch, self.mode, self.how_long = torch, mode, how_long

    def prepare(self, name, function, shape):
        torch = self.torch
        arrays = inputs_of(function, shape, torch.randn)
        torch._dynamo.reset()
        functions = {
            "chain": lambda x, y: chain(x, y, lambda a, b: torch.clamp_min(a, b)),
            "gelu": lambda x: gelu(x, torch.tanh),
            "gelu_gradient": lambda x, dy: (gelu(x, torch.tanh) * dy).sum(),
            "softmax": lambda x: torch.softmax(x, -1),
            "layer_norm": lambda x, s, o: torch.nn.functional.layer_norm(x, x.shape[-1:], s, o),
            "layer_norm_gradient": lambda x, dy, s, o: (
                torch.nn.functional.layer_norm(x, x.shape[-1:], s, o) * dy).sum(),
            "sum_of_rows": lambda x: x.sum(1),
            "sum_of_columns": lambda x: x.sum(0),
            "sum_of_all": lambda x: x.sum(),
        }
        options = {} if self.mode is None else {"mode": self.mode}
        if function == "adamw":
            p, g, m, v = arrays
            v.abs_()

            def update(p, g, m, v):
                for old, new in zip((p, m, v), adamw(p, g, m, v, 100, 1e-3, torch.sqrt)):
                    old.copy_(new)

            functions["adamw"] = update
        compiled = torch.compile(functions[function], dynamic=False, **options)
        if function.endswith("_gradient"):
            wanted = [a for i, a in enumerate(arrays) if i != 1]
            for a in wanted:
                a.requires_grad_()

            def call():
                for a in wanted:
                    a.grad = None
                compiled(*arrays).backward()

            return timed(call, *self.how_long)

        def call():
            with torch.no_grad():
                compiled(*arrays)

        return timed(call, *self.how_long)


class Jax:
    def __init__(self, *how_long):
        import jax

        self.jax, self.how_long = jax, how_long

    def prepare(self, name, function, shape):
        import numpy

        jax, jnp = self.jax, self.jax.numpy
        generator = numpy.random.default_rng(0)
        arrays = inputs_of(function, shape, lambda s: jnp.asarray(generator.standard_normal(s, dtype=numpy.float32)))
        norm = lambda x, s, o: layer_norm(x, s, o, jax.lax.rsqrt)
        functions = {
            "chain": lambda x, y: chain(x, y, jnp.maximum),
            "gelu": lambda x: gelu(x, jnp.tanh),
            "gelu_gradient": jax.value_and_grad(lambda x, dy: (gelu(x, jnp.tanh) * dy).sum()),
            "softmax": lambda x: jax.nn.softmax(x, -1),
            "layer_norm": norm,
            "layer_norm_gradient": jax.value_and_grad(lambda x, dy, s, o: (norm(x, s, o) * dy).sum(), (0, 2, 3)),
            "sum_of_rows": lambda x: x.sum(1),
            "sum_of_columns": lambda x: x.sum(0),
            "sum_of_all": lambda x: x.sum(),
        }
        if function == "adamw":
            step = jax.jit(lambda p, g, m, v: adamw(p, g, m, v, 100, 1e-3, jnp.sqrt), donate_argnums=(0, 2, 3))
            p, g, m, v = arrays
            state = [p, m, jnp.abs(v)]
            arrays = p = m = v = None

            def call():
                state[:] = step(state[0], g, state[1], state[2])
                jax.block_until_ready(state)

            return timed(call, *self.how_long)
        compiled = jax.jit(functions[function])
        return timed(lambda: jax.block_until_ready(compiled(*arrays)), *self.how_long)


def options_of(description, bench, seconds, peers):
    """Parses the options, and restricts the process to its threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=f"build-cpu/tests/bench/{bench}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each measurement")
    parser.add_argument("--peers", nargs="*", default=peers)
    parser.add_argument("--cases", default="", help="a regular expression of their names")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads:])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    return options


def main():
    options = options_of(__doc__, "expression_bench", 0.2, ["torch", "max-autotune", "jax"])
    how_long = options.threads, options.seconds
    measures = {"giro": Giro(options.bench, *how_long)}
    for peer in options.peers:
        measures[peer] = (Jax(*how_long) if peer == "jax" else
                          Torch(None if peer == "torch" else "max-autotune", *how_long))
    copy = measures["giro"].prepare(f"copy/{MEMORY}", None, None)
    least_copy = None
    print("| case | " + " | ".join(measures) + " | best peer / giro (wanted) | of memcpy's bandwidth |")
    print("|---" * (len(measures) + 3) + "|")
    missed = []
    for name, function, shape, wanted, bytes_moved in CASES:
        if not re.search(options.cases, name):
            continue
        if options.threads > 1:
            bytes_moved = 0
        calls = {which: measure.prepare(name, function, shape) for which, measure in measures.items()}
        least = {}
        for _ in range(options.rounds):
            for which, call in calls.items():
                now = call()
                least[which] = min(now, least.get(which, now))
            if bytes_moved:
                now = copy()
                least_copy = min(now, least_copy or now)
        row = [f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in least.values()]
        peers = [value for which, value in least.items() if which != "giro"]
        ratio = min(peers) / least["giro"] if peers else 0
        share = bytes_moved / least["giro"] / (BYTES_OF_COPY / least_copy) if bytes_moved else None
        if ratio < wanted or (share is not None and share < 0.9):
            missed.append(name)
        print(f"| {name} | " + " | ".join(row) + f" | {ratio:.2f} ({wanted}) | "
              + (f"{share:.2f}" if share is not None else "") + " |", flush=True)
        calls = None
        gc.collect()
    if least_copy:
        print(f"memcpy: {BYTES_OF_COPY / least_copy / 1e3:.1f} GB/s, read and written")
    print("missed: " + (", ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
