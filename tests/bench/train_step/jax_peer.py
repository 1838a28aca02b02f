"""JAX: jax.jit of a step, and lax.scan over CHUNK steps. Plain JAX, with adamw as optax computes it."""

import work

try:
    import jax
except ImportError as error:
    work.unavailable(error)
from jax import lax
from jax import numpy as jnp
import numpy as np


def initialize(name, key):
    shapes = {"dense0": (28 * 28, 10)}
    if name == "cnn":
        shapes = {"conv0": (3, 3, 1, 32), "conv1": (3, 3, 32, 64), "dense0": (7 * 7 * 64, 256), "dense1": (256, 10)}
    init = jax.nn.initializers.lecun_normal()
    return {layer: {"kernel": init(key, shape), "bias": jnp.zeros(shape[-1])}
            for (layer, shape), key in zip(shapes.items(), jax.random.split(key, len(shapes)))}


def conv(params, x):
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=dimensions) + params["bias"]
    x = jax.nn.relu(x)
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


DTYPES = {"bf16": jnp.bfloat16, "f16": jnp.float16}
dtype = jnp.float32  # of activations, and of parameters as the model uses them
GROWTH_INTERVAL = 2000


def logits_of(params, images):
    params = jax.tree.map(lambda p: p.astype(dtype), params)
    x = (images.astype(jnp.float32) / 255).astype(dtype)
    if "conv0" in params:
        x = conv(params["conv1"], conv(params["conv0"], x[..., None]))
        return dense(params["dense1"], jax.nn.relu(dense(params["dense0"], x.reshape(len(x), -1))))
    return dense(params["dense0"], x.reshape(len(x), -1))


def loss_of(params, images, labels):
    log_probabilities = jax.nn.log_softmax(logits_of(params, images).astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


def adamw(state, grads):
    count = state["step"] + 1
    mu = jax.tree.map(lambda m, g: work.B1 * m + (1 - work.B1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: work.B2 * v + (1 - work.B2) * g * g, state["nu"], grads)
    mu_scale, nu_scale = 1 / (1 - work.B1**count), 1 / (1 - work.B2**count)

    def update(p, m, v):
        return p - work.LEARNING_RATE * (m * mu_scale / (jnp.sqrt(v * nu_scale) + work.EPS) + work.WEIGHT_DECAY * p)

    return {**state, "params": jax.tree.map(update, state["params"], mu, nu), "mu": mu, "nu": nu, "step": count}


def scaled_step(state, images, labels):
    """A step with loss scaling, as in flax's DynamicScale."""
    scale = state["scale"]
    loss, grads = jax.value_and_grad(lambda params: loss_of(params, images, labels) * scale)(state["params"])
    grads = jax.tree.map(lambda g: g / scale, grads)
    good = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads)]))
    new = jax.tree.map(lambda a, b: jnp.where(good, a, b), adamw(state, grads), state)
    grown = good & (state["good_steps"] + 1 == GROWTH_INTERVAL)
    new["scale"] = jnp.where(grown, scale * 2, jnp.where(good, scale, jnp.maximum(scale / 2, 1)))
    new["good_steps"] = jnp.where(good & ~grown, state["good_steps"] + 1, 0)
    new["step"] = state["step"] + 1
    return new, loss / scale


def train_step(state, images, labels, rows):
    if "scale" in state:
        return scaled_step(state, images[rows], labels[rows])
    loss, grads = jax.value_and_grad(loss_of)(state["params"], images[rows], labels[rows])
    return adamw(state, grads), loss


def one_step(state, images, labels, chunk):
    return train_step(state, images, labels, chunk[state["step"] % work.CHUNK])


def scan_steps(state, images, labels, chunk):
    return lax.scan(lambda state, rows: train_step(state, images, labels, rows), state, chunk)


class Trainer:
    def __init__(self, args):
        jax.config.update("jax_platforms", args.device)
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if args.dtype == "tf32" else "highest")
        global dtype
        dtype = DTYPES.get(args.dtype, jnp.float32)
        self.scaled = args.dtype == "f16"
        try:
            jax.devices()
        except RuntimeError as error:
            work.unavailable(f"jax {jax.__version__}: {error}")
        self.model, self.log_every = args.model, args.log_every
        self.images, self.labels = jnp.asarray(args.images), jnp.asarray(args.labels, jnp.int32)
        self.version = f"jax {jax.__version__}"
        if args.contestant == "jax-scan":
            self.unit, self.train, self.run = work.CHUNK, self.scan, jax.jit(scan_steps, donate_argnums=0)
        else:
            self.unit, self.train, self.run = 1, self.step_by_step, jax.jit(one_step, donate_argnums=0)

    def reset(self, seed, chunks):
        params = initialize(self.model, jax.random.key(seed))
        zeros = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        self.state = {"params": params, "mu": next(zeros), "nu": next(zeros), "step": jnp.int32(0)}
        if self.scaled:
            self.state |= {"scale": jnp.float32(65536), "good_steps": jnp.int32(0)}
        self.chunks = [jnp.asarray(chunk) for chunk in chunks]
        jax.block_until_ready((self.state, self.chunks))

    def chunk(self, step):
        return self.chunks[step // work.CHUNK % len(self.chunks)]

    def step_by_step(self, steps):
        losses = []
        for step in range(steps):
            self.state, loss = self.run(self.state, self.images, self.labels, self.chunk(step))
            if self.log_every and (step + 1) % self.log_every == 0:
                losses.append(float(loss))
        jax.block_until_ready(self.state)
        return losses

    def scan(self, steps):
        losses = []
        for begin in range(0, steps, work.CHUNK):
            self.state, chunk = self.run(self.state, self.images, self.labels, self.chunk(begin))
            if self.log_every and begin // self.log_every != (begin + work.CHUNK) // self.log_every:
                losses += work.logged(chunk.tolist(), begin, self.log_every)
        jax.block_until_ready(self.state)
        return losses


if __name__ == "__main__":
    work.serve(Trainer)
