"""The recurrent language model of giro's sample on random bytes: sgd with momentum."""

import os
import random

SIZES = {"batch": 32, "length": 256, "width": 128, "layers": 2}
ITEMS = "tokens"
VOCABULARY, DROPOUT, RATE, MOMENTUM = 256, 0.1, 0.1, 0.9


def items(sizes):
    return sizes.batch * sizes.length


def texts_of(sizes):
    return random.Random(1).randbytes(100 * sizes.batch * sizes.length)


def giro(sizes, steps, folder):
    path = os.path.join(folder, "text")
    with open(path, "wb") as file:
        file.write(texts_of(sizes))
    return ["--data", path, f"--checkpoint-every={steps}", *(f"--{name}={size}" for name, size in vars(sizes).items())]


def torch_training(sizes, compiled):
    import torch
    from torch import nn

    class Rnnlm(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, sizes.width)
            self.lstm = nn.LSTM(sizes.width, sizes.width, sizes.layers, batch_first=True)
            self.dropout, self.out = nn.Dropout(DROPOUT), nn.Linear(sizes.width, VOCABULARY)

        def forward(self, tokens):
            before = nn.functional.pad(tokens[:, :-1], (1, 0))
            logits = self.out(self.dropout(self.lstm(self.table(before))[0]))
            return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens.reshape(-1))

    model = Rnnlm()
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, fused=True)
    loss_of = compiled(model)
    data = torch.frombuffer(bytearray(texts_of(sizes)), dtype=torch.uint8).reshape(-1, sizes.batch, sizes.length)

    return lambda number: loss_of(data[number % len(data)].long()), optimizer


def jax_step(sizes):
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    width = sizes.width
    keys = iter(jax.random.split(jax.random.key(0), 2 * sizes.layers + 2))
    uniform = lambda *shape: jax.random.uniform(next(keys), shape, minval=-1, maxval=1) / width**0.5
    parameters = {
        "table": jax.random.normal(next(keys), (VOCABULARY, width)),
        "lstms": [{"input": uniform(width, 4 * width), "hidden": uniform(width, 4 * width),
                   "bias": jnp.zeros(4 * width)} for _ in range(sizes.layers)],
        "out": {"kernel": uniform(width, VOCABULARY), "bias": jnp.zeros(VOCABULARY)},
    }

    def lstm(of, x):
        # One product for the inputs of all steps.
        projected = (x @ of["input"] + of["bias"]).swapaxes(0, 1)

        def advance(carry, inputs):
            cell, hidden = carry
            i, f, g, o = jnp.split(inputs + hidden @ of["hidden"], 4, -1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (cell, hidden), hidden

        nothing = jnp.zeros((x.shape[0], width))
        return jax.lax.scan(advance, (nothing, nothing), projected)[1].swapaxes(0, 1)

    def loss_of(parameters, tokens, key):
        x = parameters["table"][jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)))]
        for layer in parameters["lstms"]:
            x = lstm(layer, x)
        x = jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0)
        logits = x @ parameters["out"]["kernel"] + parameters["out"]["bias"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

    optimizer = optax.sgd(RATE, MOMENTUM)

    def update(state, tokens, key):
        parameters, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, key)
        updates, moments = optimizer.update(gradients, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), loss

    update = jax.jit(update, donate_argnums=0)
    state = parameters, optimizer.init(parameters)
    data = np.frombuffer(texts_of(sizes), np.uint8).reshape(-1, sizes.batch, sizes.length).astype(np.int32)

    def step(number):
        nonlocal state
        state, loss = update(state, data[number % len(data)], jax.random.key(number))
        return loss

    return step
