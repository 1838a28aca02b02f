"""The effect of roundings on a function: how far its results may be from exact arithmetic.

The function is evaluated in double several times. Each time, every number that a primitive reads or writes is
multiplied by 1 + s unit, with a random sign s, where unit is the largest relative error of one rounding. The root mean
square of the changes in a result is one standard deviation of its error, however the terms cancel. Primitives that do
not round, such as a transposition or a maximum, are left exact.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

UNITS = {"f32": 2.0**-24, "bf16": 2.0**-8}
SAMPLES = 16
FACTORS = 10_000  # at least the size of the largest array

EXACT = set(
    "abs and argmax argmin broadcast_in_dim clamp concatenate convert_element_type copy dynamic_slice eq gather ge gt "
    "iota is_finite le lt max min ne neg not or pad reduce_and reduce_max reduce_min reduce_or reshape rev scatter "
    "select_n sign slice sort split squeeze top_k transpose".split()
)


class Rounding:
    """Multiplies an array by the next factors, as one rounding would."""

    def __init__(self, factors):
        self.factors, self.used = factors, 0

    def __call__(self, x):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        begin = self.used if self.used + x.size <= FACTORS else 0
        self.used = begin + x.size
        return x * lax.reshape(lax.slice(self.factors, [begin], [self.used]), x.shape).astype(x.dtype)


def inner_jaxpr(equation):
    """The jaxpr that a call runs; None for a loop or a conditional, which counts as one primitive."""
    if equation.primitive.name in ("scan", "while", "cond"):
        return None
    for name in ("jaxpr", "call_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return inner if hasattr(inner, "consts") else jax.extend.core.ClosedJaxpr(inner, ())
    return None


def evaluate(closed, arguments, rounded):
    """The results of a jaxpr, with roundings in all primitives except the exact ones."""
    values = dict(zip(closed.jaxpr.constvars, closed.consts))
    values.update(zip(closed.jaxpr.invars, arguments))

    def value(x):
        return x.val if isinstance(x, jax.extend.core.Literal) else values[x]

    for equation in closed.jaxpr.eqns:
        read = [value(x) for x in equation.invars]
        inner = inner_jaxpr(equation)
        if inner is not None:
            results = evaluate(inner, read, rounded)
        elif equation.primitive.name in EXACT:
            results = equation.primitive.bind(*read, **equation.params)
        else:
            read = [rounded(jnp.asarray(x)) for x in read]
            results = equation.primitive.bind(*read, **equation.params)
            results = jax.tree.map(rounded, results)
        if inner is None and not equation.primitive.multiple_results:
            results = [results]
        values.update(zip(equation.outvars, results))
    return [value(x) for x in closed.jaxpr.outvars]


def sampled(function):
    """Makes a function of a unit, the arguments and a seed, which samples function(*arguments). The leaves of arguments
    and results have a leading axis of samples. The first sample is exact."""

    @jax.jit
    @jax.vmap
    def samples(factors, arguments):
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = evaluate(closed, jax.tree.leaves(arguments), Rounding(factors))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    def with_factors(unit, *arguments, seed=0):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], (1 + SAMPLES, FACTORS))
        signs[0] = 0
        return samples(1 + unit * signs, arguments)

    return with_factors


def repeated(tree):
    """The same values in every sample."""
    return jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], 1 + SAMPLES, 0), tree)


def exact_and_deviation(samples):
    """The exact result, and one standard deviation of its rounding error; 0 for integers."""
    samples = np.asarray(samples)
    if not np.issubdtype(samples.dtype, np.floating):
        return samples[0], np.zeros(samples.shape[1:])
    with np.errstate(invalid="ignore"):
        return samples[0], np.sqrt(np.mean((samples[1:] - samples[0]) ** 2, 0))
