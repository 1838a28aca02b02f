"""Compares what write_cases writes with JAX: cases_test.py WRITE_CASES [LIBRARIES [SHARE]]. See jax_test.py."""

import functools
import sys

import comparison
import rounding  # before jax, because it sets XLA_FLAGS
import jax
import jax.numpy as jnp

import layers
import losses
import ops

FUNCTIONS = {**ops.FUNCTIONS, **losses.FUNCTIONS, **layers.FUNCTIONS}


@functools.cache
def sampled(name, inputs, leaves, has_written):
    """Samples of a function's outputs, of its variables' new values, and of the gradients with respect to `by`."""

    def results_of(by, given, weights):
        named = {**by, **given}
        of_leaves = {"p": {each: named[each] for each in leaves}} if leaves else {}
        results = FUNCTIONS[name](*(named[each] for each in inputs), **of_leaves)
        results, written = results if has_written else (results, {})
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        loss = sum(jnp.sum(y * w) for y, w in zip(results, weights, strict=True) if w is not None)
        return loss, (results, written)

    def with_gradients(by, given, weights):
        if not by:
            return *results_of(by, given, weights)[1], {}
        gradients, results = jax.grad(results_of, has_aux=True)(by, given, weights)
        return *results, gradients

    return rounding.sampled(with_gradients)


def expected(case):
    leaves = {**case["parameters"], **case["variables"]}
    given = {name: comparison.array_of(each) for name, each in {**case["inputs"], **leaves}.items()}
    by = {name: given.pop(name) for name in case["gradients"]}
    weights = [None if each is None else comparison.array_of(each) for each in case["weights"]]
    function = sampled(case["name"], tuple(case["inputs"]), tuple(leaves), bool(case["written"]))
    return function(rounding.UNITS[case["dtype"]], *rounding.repeated((by, given, weights)))


def compare(case, tally):
    name, dtype = f"{case['name']}, {case['dtype']}", case["dtype"]
    results, written, gradients = expected(case)
    for k, (output, samples) in enumerate(zip(case["outputs"], results, strict=True)):
        tally.compare(f"{name}: output {k}", dtype, comparison.array_of(output), samples)
    for kind, found, wanted in (("", case["written"], written), ("gradient by ", case["gradients"], gradients)):
        if found.keys() != wanted.keys():
            tally.fail(f"{name}: found {sorted(found)}, expected {sorted(wanted)}")
            continue
        for each, value in found.items():
            tally.compare(f"{name}: {kind}{each}", dtype, comparison.array_of(value), wanted[each])


if __name__ == "__main__":
    sys.exit(comparison.compare_all(sys.argv[1:], FUNCTIONS, compare))
