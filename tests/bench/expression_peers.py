#!/usr/bin/env python3
"""Times what expression_bench times, in PyTorch and JAX on one thread, in microseconds.

usage: taskset -c 0 env OMP_NUM_THREADS=1 python3 expression_peers.py [torch] [jax]
"""

import sys
import time


def chain(x, y, maximum):
    for k in range(5):
        x = maximum(x * (0.9 + 0.01 * k) + y, -1.0 - 0.1 * k) - 0.1 * k
    return x


def gelu(x, tanh):
    return 0.5 * x * (tanh((x + 0.044715 * (x * x * x)) * 0.7978845608028654) + 1)


def shapes():
    yield "chain_of_20/65536", "chain", (1 << 16,)
    yield "chain_of_20/67108864", "chain", (1 << 26,)
    yield "gelu/65536", "gelu", (1 << 16,)
    yield "gelu/1048576", "gelu", (1 << 20,)
    yield "softmax/1024/1024", "softmax", (1024, 1024)
    yield "softmax/32/10", "softmax", (32, 10)
    yield "softmax/64/32768", "softmax", (64, 32768)
    yield "layer_norm/1024/768", "layer_norm", (1024, 768)
    yield "sum_of_rows", "sum_of_rows", (1024, 1024)
    yield "sum_of_columns", "sum_of_columns", (1024, 1024)
    yield "sum_of_all", "sum_of_all", (1 << 26,)


def best(call, seconds=0.5):
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


def of_torch():
    import torch

    torch.set_num_threads(1)
    functions = {
        "chain": lambda x, y: chain(x, y, lambda a, b: torch.clamp_min(a, b)),
        "gelu": lambda x: gelu(x, torch.tanh),
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x, s, o: torch.nn.functional.layer_norm(x, x.shape[-1:], s, o),
        "sum_of_rows": lambda x: x.sum(1),
        "sum_of_columns": lambda x: x.sum(0),
        "sum_of_all": lambda x: x.sum(),
    }
    for name, function, shape in shapes():
        arrays = [torch.randn(shape)]
        if function == "chain":
            arrays.append(torch.randn(shape))
        if function == "layer_norm":
            arrays += [torch.randn(shape[-1]), torch.randn(shape[-1])]
        eager, compiled = functions[function], torch.compile(functions[function], dynamic=False)
        with torch.no_grad():
            print(f"torch.compile {name} {best(lambda: compiled(*arrays)):.1f}, eager {best(lambda: eager(*arrays)):.1f}",
                  flush=True)


def of_jax():
    import jax
    import jax.numpy as jnp

    def layer_norm(x, s, o):
        d = x - x.mean(-1, keepdims=True)
        return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * s + o

    functions = {
        "chain": lambda x, y: chain(x, y, jnp.maximum),
        "gelu": lambda x: gelu(x, jnp.tanh),
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "layer_norm": layer_norm,
        "sum_of_rows": lambda x: x.sum(1),
        "sum_of_columns": lambda x: x.sum(0),
        "sum_of_all": lambda x: x.sum(),
    }
    for name, function, shape in shapes():
        key = jax.random.key(0)
        arrays = [jax.random.normal(key, shape)]
        if function == "chain":
            arrays.append(jax.random.normal(key, shape))
        if function == "layer_norm":
            arrays += [jax.random.normal(key, shape[-1:])] * 2
        compiled = jax.jit(functions[function])
        print(f"jax.jit {name} {best(lambda: compiled(*arrays).block_until_ready()):.1f}", flush=True)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["torch", "jax"]
    if "torch" in wanted:
        of_torch()
    if "jax" in wanted:
        of_jax()
