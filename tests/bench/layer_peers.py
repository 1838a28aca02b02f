#!/usr/bin/env python3
"""Compares layer_bench, forward and backward, with torch, torch.compile and jax.jit, in f32.

usage: layer_peers.py [--bench FILE] [--threads N] [--rounds N] [--seconds S] [--peers torch compile jax]
                      [--cases REGEX]

All take turns, as in expression_peers.py. Prints each one's minimum time in microseconds, and giro's speedup over the
best peer. The exit code is 1 if a speedup is below its target.
"""

import re
import sys

from expression_peers import Giro, options_of, timed

# The benchmark's name and arguments, and the target ratio. attention: B, T, H, D, whether causal. lstm: B, T, features.
CASES = [("attention", (4, 256, 12, 64, 0), 1.2), ("attention", (4, 256, 12, 64, 1), 1.0),
         ("attention", (1, 1024, 12, 64, 1), 1.0), ("attention", (2, 512, 8, 128, 0), 1.0),
         ("lstm", (32, 64, 256), 1.2), ("mlp_block", (1024, 768), 1.2)]


def torch_call(name, numbers, is_compiled):
    import torch
    from torch import nn

    if name == "attention":
        query, key, value = (torch.randn(numbers[:4], requires_grad=True) for _ in range(3))
        dout = torch.randn(numbers[:4])
        with_respect_to = [query, key, value]

        def loss():
            heads = (x.transpose(1, 2) for x in (query, key, value))
            out = nn.functional.scaled_dot_product_attention(*heads, is_causal=numbers[4] != 0).transpose(1, 2)
            return out, dout
    else:
        x = torch.randn(numbers)
        width = numbers[-1]
        if name == "lstm":
            layer = nn.LSTM(width, width, batch_first=True)
            forward = lambda: layer(x)[0]
        else:
            layer = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                  nn.Linear(4 * width, width))
            forward = lambda: x + layer(x)
        with_respect_to = list(layer.parameters())

        def loss():
            return forward().square().mean(), None

    if is_compiled:
        torch._dynamo.reset()
        loss = torch.compile(loss)

    def call():
        out, dout = loss()
        torch.autograd.grad(out, with_respect_to, dout)

    return call


def jax_call(name, numbers):
    import jax
    import jax.numpy as jnp

    normal = lambda *shape: jax.random.normal(jax.random.key(len(shape)), shape)
    if name == "attention":
        query, key, value, dout = (jax.random.normal(k, numbers[:4]) for k in jax.random.split(jax.random.key(0), 4))

        @jax.jit
        def step(query, key, value, dout):
            attend = lambda *arrays: jax.nn.dot_product_attention(*arrays, is_causal=numbers[4] != 0)
            out, gradients = jax.vjp(attend, query, key, value)
            return out, gradients(dout)

        return lambda: jax.block_until_ready(step(query, key, value, dout))

    x, width = normal(*numbers), numbers[-1]
    if name == "lstm":
        parameters = [normal(width, 4 * width) / 16, normal(width, 4 * width) / 16, normal(4 * width)]

        def forward(parameters, x):
            kernel, recurrent, bias = parameters

            def cell(carry, of_x):
                h, c = carry
                i, f, g, o = jnp.split(of_x + h @ recurrent, 4, axis=-1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            zeros = jnp.zeros((numbers[0], width))
            return jax.lax.scan(cell, (zeros, zeros), jnp.swapaxes(x @ kernel + bias, 0, 1))[1]
    else:
        parameters = [jnp.ones(width), jnp.zeros(width), normal(width, 4 * width) / 28, normal(4 * width),
                      normal(4 * width, width) / 55, normal(width)]

        def forward(parameters, x):
            scale, bias, up, up_bias, down, down_bias = parameters
            centered = x - x.mean(-1, keepdims=True)
            normalized = centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5)
            return x + jax.nn.gelu((normalized * scale + bias) @ up + up_bias) @ down + down_bias

    step = jax.jit(jax.value_and_grad(lambda parameters, x: jnp.square(forward(parameters, x)).mean()))
    return lambda: jax.block_until_ready(step(parameters, x))


def main():
    options = options_of(__doc__, "layer_bench", 0.5, ["torch", "compile", "jax"])
    if "torch" in options.peers or "compile" in options.peers:
        import torch

        torch.set_num_threads(options.threads)
    calls = {"torch": lambda *case: torch_call(*case, False), "compile": lambda *case: torch_call(*case, True),
             "jax": jax_call}
    print("| case | giro | " + " | ".join(options.peers) + " | best peer / giro (wanted) |")
    print("|---" * (len(options.peers) + 3) + "|")
    missed = False
    for name, numbers, wanted in CASES:
        case = "/".join(map(str, (name, *numbers)))
        if not re.search(options.cases, case):
            continue
        measures = [Giro(options.bench, options.threads, options.seconds).prepare(case, None, None)]
        for peer in options.peers:
            measures.append(timed(calls[peer](name, numbers), options.threads, options.seconds))
        giro, *peers = (min(times) for times in zip(*([m() for m in measures] for _ in range(options.rounds))))
        ratio = min(peers) / giro
        missed |= ratio < wanted
        print(f"| {case} | {giro:.0f} | " + " | ".join(f"{t:.0f}" for t in peers) + f" | {ratio:.2f} ({wanted}) |",
              flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
