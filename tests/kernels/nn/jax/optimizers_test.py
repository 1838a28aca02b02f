"""Compares what write_optimizers writes with optax: optimizers_test.py WRITE_OPTIMIZERS [LIBRARIES]. See jax_test.py."""

import functools
import sys

import comparison
import rounding  # before jax, because it sets XLA_FLAGS
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib

STEPS = 10
DECAYS = {"a/kernel": True, "a/bias": False, "b/kernel": True, "c": False}
OF_MUON = {name: "muon" if name.endswith("kernel") else "adamw" for name in DECAYS}


def in_double(schedule):
    """The schedule as a table of doubles. optax converts the step to f32, which rounding could move past the end."""
    rates = np.array([schedule(jnp.float64(step)) for step in range(STEPS)])
    return lambda step: jnp.asarray(rates)[step]


RATE = in_double(optax.warmup_cosine_decay_schedule(0.01, 0.05, 3, 9, 0.002))


def muon(**options):
    # optax's muon also gives the other leaves Nesterov momentum.
    return optax.partition({"muon": contrib.muon(RATE, **options), "adamw": optax.adamw(RATE, weight_decay=0)}, OF_MUON)


def lookahead(optimizer, every, alpha):
    """optax.lookahead for plain parameters instead of pairs."""
    around = optax.lookahead(optimizer, every, alpha)

    def update(updates, state, params):
        state, slow = state
        updates, state = around.update(updates, state, optax.LookaheadParams(params, slow))
        return updates.fast, (state, optax.apply_updates(slow, updates.slow))

    return optax.GradientTransformation(lambda p: (around.init(optax.LookaheadParams(p, p)), p), update)



def by_sgd(schedule):
    return optax.sgd(in_double(schedule))


def inverse_sqrt(step):
    return jnp.where(step < 4, 0.1 * step / 4, 0.1 * jnp.sqrt(4 / jnp.maximum(step, 1)))


OPTIMIZERS = {
    "sgd": optax.sgd(RATE),
    "sgd, momentum": optax.sgd(RATE, 0.9),
    "sgd, nesterov, weight decay": optax.chain(
        optax.trace(0.75, nesterov=True), optax.add_decayed_weights(0.1, DECAYS), optax.scale_by_learning_rate(RATE)
    ),
    "adam": optax.adam(RATE, b1=0.8, b2=0.99, eps=1e-3),
    "adamw": optax.adamw(RATE, weight_decay=0.1, mask=DECAYS),
    "lion": optax.lion(RATE, weight_decay=0.1, mask=DECAYS),
    "rmsprop": optax.rmsprop(RATE, initial_scale=0.5),
    "rmsprop, centered, nesterov": optax.rmsprop(
        RATE, decay=0.8, eps=1e-2, centered=True, momentum=0.5, nesterov=True
    ),
    "adagrad": optax.adagrad(RATE),
    "adafactor": optax.adafactor(RATE),
    "adafactor, factored, momentum, weight decay": optax.adafactor(
        RATE, min_dim_size_to_factor=4, momentum=0.5, dtype_momentum=jnp.float64, weight_decay_rate=0.01,
        weight_decay_mask=DECAYS,
    ),
    "adafactor without scales": optax.adafactor(
        RATE, min_dim_size_to_factor=4, multiply_by_parameter_scale=False, clipping_threshold=0.5
    ),
    "muon": muon(),
    "muon, weight decay": muon(ns_steps=3, nesterov=False, weight_decay=0.1),
    "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(2), optax.adamw(RATE)),
    "clip_by_value": optax.chain(optax.clip(0.25), optax.sgd(RATE, 0.9)),
    "lookahead": lookahead(optax.adam(RATE), 3, 0.25),
    "accumulate": optax.MultiSteps(optax.chain(optax.clip_by_global_norm(2), optax.adam(RATE)), 2),
    "by_path": optax.partition(
        {"frozen": optax.set_to_zero(), "sgd": optax.sgd(RATE), "adamw": optax.adamw(RATE)},
        {"a/kernel": "frozen", "a/bias": "sgd", "b/kernel": "adamw", "c": "adamw"},
    ),
    "constant": optax.sgd(0.1),
    "warmup": by_sgd(optax.linear_schedule(0.02, 0.1, 4)),
    "cosine": by_sgd(optax.cosine_decay_schedule(0.1, 7, 0.1)),
    "linear": by_sgd(optax.linear_schedule(0.1, 0.01, 6)),
    "polynomial": by_sgd(optax.polynomial_schedule(0.1, 0.01, 2.5, 7)),
    "exponential_decay": by_sgd(optax.exponential_decay(0.1, 3, 0.5, end_value=0.02)),
    "exponential_decay, staircase": by_sgd(lambda step: 0.1 * 0.5 ** (step // 3)),
    "inverse_sqrt": by_sgd(inverse_sqrt),
    "piecewise_constant": by_sgd(optax.piecewise_constant_schedule(0.1, {3: 0.5, 6: 0.25})),
    "join": by_sgd(
        optax.join_schedules(
            [optax.linear_schedule(0.01, 0.1, 3), optax.constant_schedule(0.1), optax.cosine_decay_schedule(0.1, 3)],
            [3, 6],
        )
    ),
}


@functools.cache
def sampled_step(name):
    def step(params, state, gradients):
        updates, state = OPTIMIZERS[name].update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    return rounding.sampled(step)


def compare(case, tally):
    step = sampled_step(case["name"])
    params = comparison.arrays_of(case["initial"])
    params, state = rounding.repeated((params, OPTIMIZERS[case["name"]].init(params)))
    for number, (gradients, found) in enumerate(zip(case["gradients"], case["params"], strict=True), 1):
        gradients = rounding.repeated(comparison.arrays_of(gradients))
        params, state = step(rounding.UNITS["f32"], params, state, gradients, seed=number)
        for name, array in comparison.arrays_of(found).items():
            tally.compare(f"{case['name']}: {name} after {number} steps", "f32", array, params[name])


if __name__ == "__main__":
    sys.exit(comparison.compare_all(sys.argv[1:], OPTIMIZERS, compare))
