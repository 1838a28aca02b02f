#!/usr/bin/env python3
"""What attention_bench times, forward and backward, beside torch's scaled_dot_product_attention and jax.nn's.

usage: attention_peers.py [--bench FILE] [--threads N] [--rounds N] [--seconds S] [--peers torch jax]

All take turns, as in expression_peers.py. It prints the least time of each in microseconds, and how many times as fast
as the best peer giro was. The exit code is 1 if that is less than wanted.
"""

import argparse
import os
import sys

from expression_peers import Giro, timed

# B, T, H, D, whether causal, and the ratio wanted.
CASES = [((4, 256, 12, 64), False, 1.2), ((4, 256, 12, 64), True, 1.0), ((1, 1024, 12, 64), True, 1.0),
         ((2, 512, 8, 128), False, 1.0)]


def torch_call(shape, is_causal, threads):
    import torch

    torch.set_num_threads(threads)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))
    dout = torch.randn(shape)

    def call():
        heads = (x.transpose(1, 2) for x in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=is_causal).transpose(1, 2)
        torch.autograd.grad(out, (query, key, value), dout)

    return call


def jax_call(shape, is_causal, threads):
    import jax

    keys = jax.random.split(jax.random.key(0), 4)
    query, key, value, dout = (jax.random.normal(k, shape) for k in keys)

    @jax.jit
    def step(query, key, value, dout):
        attend = lambda *arrays: jax.nn.dot_product_attention(*arrays, is_causal=is_causal)
        out, gradients = jax.vjp(attend, query, key, value)
        return out, gradients(dout)

    return lambda: jax.block_until_ready(step(query, key, value, dout))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build-cpu/tests/bench/attention_bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"])
    options = parser.parse_args()

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads:])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    calls = {"torch": torch_call, "jax": jax_call}
    print("| B/T/H/D/causal | giro | " + " | ".join(options.peers) + " | best peer / giro (wanted) |")
    print("|---" * (len(options.peers) + 3) + "|")
    missed = False
    for shape, is_causal, wanted in CASES:
        name = "/".join(map(str, (*shape, int(is_causal))))
        measures = [Giro(options.bench, options.threads, options.seconds).prepare(f"attention/{name}", None, None)]
        for peer in options.peers:
            measures.append(timed(calls[peer](shape, is_causal, options.threads), options.threads, options.seconds))
        giro, *peers = (min(times) for times in zip(*([m() for m in measures] for _ in range(options.rounds))))
        ratio = min(peers) / giro
        missed |= ratio < wanted
        print(f"| {name} | {giro:.0f} | " + " | ".join(f"{t:.0f}" for t in peers) + f" | {ratio:.2f} ({wanted}) |",
              flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
