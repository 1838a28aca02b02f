"""GPT-2 on random tokens: adamw with the settings of giro's sample, and gradients clipped to a norm of 1."""

import array
import os
import random

SIZES = {"layers": 12, "heads": 12, "width": 768, "context": 64, "batch": 4, "vocabulary": 50257}
ITEMS = "tokens"


def items(sizes):
    return sizes.batch * sizes.context


def tokens_of(sizes):
    random.seed(1)
    return [random.randrange(sizes.vocabulary) for _ in range(200 * (sizes.context + 1))]


def giro(sizes, steps, folder):
    path = os.path.join(folder, "tokens.bin")
    with open(path, "wb") as file:
        file.write(array.array("H", tokens_of(sizes)).tobytes())
    nothing_else = [f"--{name}-every=0" for name in ("log", "validate", "sample", "checkpoint")]
    return ["--data", path, "--bytes-per-token=2", *nothing_else, *(f"--{name}={size}" for name, size in
                                                                    vars(sizes).items())]


def torch_training(sizes, compiled):
    import torch
    from torch import nn

    width, heads = sizes.width, sizes.heads

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
            self.table = nn.Embedding(sizes.vocabulary, width)
            self.positions = nn.Embedding(sizes.context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(sizes.layers))
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
            return nn.functional.cross_entropy(logits.reshape(-1, sizes.vocabulary), following.reshape(-1))

    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = compiled(model)
    data = torch.tensor(tokens_of(sizes)).reshape(-1, sizes.context + 1)

    def loss_at(number):
        return loss_of(data[[(number * sizes.batch + i) % len(data) for i in range(sizes.batch)]])

    return loss_at, optimizer, lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def jax_step(sizes):
    import jax
    import jax.numpy as jnp
    import optax

    width, heads = sizes.width, sizes.heads
    keys = iter(jax.random.split(jax.random.key(0), 6 * sizes.layers + 2))
    normal = lambda *shape: 0.02 * jax.random.normal(next(keys), shape)
    norm = lambda: {"scale": jnp.ones(width), "bias": jnp.zeros(width)}
    dense = lambda inputs, outputs: {"kernel": normal(inputs, outputs), "bias": jnp.zeros(outputs)}
    parameters = {
        "table": normal(sizes.vocabulary, width),
        "positions": normal(sizes.context, width),
        "norm": norm(),
        "blocks": [{"norm1": norm(), "norm2": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width),
                    "up": dense(width, 4 * width), "down": dense(4 * width, width)} for _ in range(sizes.layers)],
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

    def update(state, tokens):
        parameters, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
        updates, moments = optimizer.update(gradients, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), loss

    update = jax.jit(update, donate_argnums=0)
    state = parameters, optimizer.init(parameters)
    data = jnp.array(tokens_of(sizes), jnp.int32).reshape(-1, sizes.context + 1)

    def step(number):
        nonlocal state
        first = number * sizes.batch % (len(data) - sizes.batch)
        state, loss = update(state, data[first:first + sizes.batch])
        return loss

    return step
