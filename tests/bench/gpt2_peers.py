#!/usr/bin/env python3
"""samples/gpt2 beside the same training in torch, torch.compile and jax, of f32 on the CPU: tokens per second.

usage: gpt2_peers.py [--sample FILE] [--threads N] [--rounds N] [--steps N] [--layers N] [--heads N] [--width N]
                     [--context N] [--batch N] [--vocabulary N] [--peers torch compile jax] [--wanted RATIO]

Random tokens, adamw with the sample's settings, gradients clipped to a norm of 1. Each takes its steps in turn, round
after round, on as many cores as threads. A peer's first two steps, in which it compiles, are not counted; giro's are.
It prints the most tokens per second of each, and how many times as fast as the best peer giro was. The exit code is 1
if that is less than wanted.
"""

import argparse
import array
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time


def tokens_of(options):
    random.seed(1)
    return [random.randrange(options.vocabulary) for _ in range(200 * (options.context + 1))]


class Giro:
    def __init__(self, options, folder):
        path = os.path.join(folder, "tokens.bin")
        with open(path, "wb") as file:
            file.write(array.array("H", tokens_of(options)).tobytes())
        sizes = [f"--{name}={getattr(options, name)}"
                 for name in ("layers", "heads", "width", "context", "batch", "vocabulary", "steps")]
        nothing_else = [f"--{name}-every=0" for name in ("log", "validate", "sample", "checkpoint")]
        self.command = [options.sample, "--data", path, "--bytes-per-token=2", "--device=cpu", *sizes, *nothing_else]
        self.folder = folder

    def measure(self):
        output = subprocess.run(self.command, cwd=self.folder, check=True, stdout=subprocess.PIPE).stdout.decode()
        return json.loads(output[output.index("result: ") + len("result: "):])["tokens_per_second"]


class Torch:
    def __init__(self, options, is_compiled):
        import torch
        from torch import nn

        torch.manual_seed(0)
        torch.set_num_threads(options.threads)
        width, heads = options.width, options.heads

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                b, t, _ = x.shape
                q, k, v = (part.view(b, t, heads, width // heads).transpose(1, 2)
                           for part in self.qkv(self.norm1(x)).split(width, 2))
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
                return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

        class Gpt2(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(options.vocabulary, width)
                self.positions = nn.Embedding(options.context, width)
                self.blocks = nn.ModuleList(Block() for _ in range(options.layers))
                self.norm = nn.LayerNorm(width)
                for parameter in self.parameters():
                    if parameter.dim() > 1:
                        nn.init.normal_(parameter, std=0.02)

            def forward(self, tokens):
                x, following = tokens[:, :-1], tokens[:, 1:]
                x = self.table(x) + self.positions.weight[: x.shape[1]]
                for block in self.blocks:
                    x = block(x)
                logits = self.norm(x) @ self.table.weight.T
                return nn.functional.cross_entropy(logits.reshape(-1, options.vocabulary), following.reshape(-1))

        model = Gpt2()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        if is_compiled:
            torch._dynamo.reset()
        loss_of = torch.compile(model) if is_compiled else model
        data = torch.tensor(tokens_of(options)).reshape(-1, options.context + 1)

        def step(number):
            rows = [(number * options.batch + i) % len(data) for i in range(options.batch)]
            loss_of(data[rows]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

        self.step, self.options = step, options
        for number in range(2):
            step(number)

    def measure(self):
        begin = time.perf_counter()
        for number in range(self.options.steps):
            self.step(number)
        return self.options.steps * self.options.batch * self.options.context / (time.perf_counter() - begin)


class Jax:
    def __init__(self, options):
        import jax
        import jax.numpy as jnp
        import optax

        width, heads = options.width, options.heads
        keys = iter(jax.random.split(jax.random.key(0), 6 * options.layers + 2))
        normal = lambda *shape: 0.02 * jax.random.normal(next(keys), shape)
        norm = lambda: {"scale": jnp.ones(width), "bias": jnp.zeros(width)}
        dense = lambda inputs, outputs: {"kernel": normal(inputs, outputs), "bias": jnp.zeros(outputs)}
        parameters = {
            "table": normal(options.vocabulary, width),
            "positions": normal(options.context, width),
            "norm": norm(),
            "blocks": [{"norm1": norm(), "norm2": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width),
                        "up": dense(width, 4 * width), "down": dense(4 * width, width)}
                       for _ in range(options.layers)],
        }

        def layer_norm(of, x):
            centered = x - x.mean(-1, keepdims=True)
            return centered * jax.lax.rsqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * of["scale"] + of["bias"]

        apply = lambda of, x: x @ of["kernel"] + of["bias"]

        def loss_of(parameters, tokens):
            x, following = tokens[:, :-1], tokens[:, 1:]
            b, t = x.shape
            x = parameters["table"][x] + parameters["positions"][:t]
            for block in parameters["blocks"]:
                q, k, v = jnp.split(apply(block["qkv"], layer_norm(block["norm1"], x)), 3, -1)
                in_heads = lambda of: of.reshape(b, t, heads, width // heads)
                y = jax.nn.dot_product_attention(in_heads(q), in_heads(k), in_heads(v), is_causal=True)
                x = x + apply(block["out"], y.reshape(b, t, width))
                x = x + apply(block["down"], jax.nn.gelu(apply(block["up"], layer_norm(block["norm2"], x))))
            logits = layer_norm(parameters["norm"], x) @ parameters["table"].T
            return optax.softmax_cross_entropy_with_integer_labels(logits, following).mean()

        optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-4, b2=0.95, weight_decay=0.1))

        def update(parameters, moments, tokens):
            _, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
            updates, moments = optimizer.update(gradients, moments, parameters)
            return optax.apply_updates(parameters, updates), moments

        self.jax, self.options = jax, options
        self.update = jax.jit(update, donate_argnums=(0, 1))
        self.parameters, self.moments = parameters, optimizer.init(parameters)
        self.data = jnp.array(tokens_of(options), jnp.int32).reshape(-1, options.context + 1)
        self.run(2)

    def run(self, steps):
        for number in range(steps):
            first = number * self.options.batch % (len(self.data) - self.options.batch)
            rows = self.data[first:first + self.options.batch]
            self.parameters, self.moments = self.update(self.parameters, self.moments, rows)
        self.jax.block_until_ready(self.parameters)

    def measure(self):
        begin = time.perf_counter()
        self.run(self.options.steps)
        return self.options.steps * self.options.batch * self.options.context / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", default="build/samples/gpt2")
    for name, value in {"threads": 1, "rounds": 3, "steps": 10, "layers": 12, "heads": 12, "width": 768, "context": 64,
                        "batch": 4, "vocabulary": 50257}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--peers", nargs="*", default=["torch", "compile", "jax"])
    parser.add_argument("--wanted", type=float, default=1.2)
    options = parser.parse_args()
    options.sample = os.path.abspath(options.sample)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads:])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    makers = {"torch": lambda: Torch(options, False), "compile": lambda: Torch(options, True),
              "jax": lambda: Jax(options)}
    with tempfile.TemporaryDirectory() as folder:
        all_of_them = [Giro(options, folder)] + [makers[peer]() for peer in options.peers]
        rounds = [[each.measure() for each in all_of_them] for _ in range(options.rounds)]
    giro, *peers = (max(times) for times in zip(*rounds))
    best = max(peers, default=math.nan)
    print("| giro | " + " | ".join(options.peers) + " | giro / best peer (wanted) |")
    print("|---" * (len(options.peers) + 2) + "|")
    print(f"| {giro:.0f} | " + " | ".join(f"{each:.0f}" for each in peers) +
          f" | {giro / best:.2f} ({options.wanted}) |", flush=True)
    sys.exit(giro < options.wanted * best)


if __name__ == "__main__":
    main()
