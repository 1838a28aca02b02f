"""Compares the cases that a program writes with functions of the same names."""

import json
import os
import subprocess

import rounding
import numpy as np

DTYPES = {"f32": float, "bf16": float, "bool": bool, "u8": int, "i32": int, "i64": int}


def array_of(written):
    return np.array(written["values"], float).reshape(written["shape"]).astype(DTYPES[written["dtype"]])


def arrays_of(written):
    return {name: array_of(each) for name, each in written.items()}


class Tally:
    """Compares results, and records how close they were."""

    # The tolerance in standard deviations. In bf16 most ops compute in f32 and round once.
    DEVIATIONS = {"f32": 6, "bf16": 3}

    def __init__(self):
        self.elements, self.wrong = 0, 0
        self.worst = {}

    def fail(self, what):
        self.wrong += 1
        print(what)

    def compare(self, what, dtype, found, samples):
        wanted, deviation = rounding.exact_and_deviation(samples)
        if wanted.shape != found.shape:
            self.fail(f"{what}: found the shape {found.shape}, expected {wanted.shape}")
            return
        bound = self.DEVIATIONS[dtype] * deviation
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(found == wanted, 0, np.abs(found - wanted) / bound)
        # NaN is wrong, since no case has any, and so is an infinite bound.
        ratio = np.where(np.isnan(ratio) | np.isinf(bound), np.inf, ratio)
        self.elements += found.size
        if found.size == 0:
            return
        at = np.unravel_index(np.argmax(ratio), ratio.shape)
        self.worst[dtype] = max(self.worst.get(dtype, (0, "")), (float(ratio[at]), what))
        if ratio[at] > 1:
            wrong = int(np.sum(ratio > 1))
            self.fail(
                f"{what}: {wrong} of {found.size} elements are off; element {tuple(map(int, at))}: found "
                f"{found[at]!r}, expected {wanted[at]!r} within {bound[at]:.3g}"
            )


def compare_all(arguments, functions, compare):
    """Calls compare(case, tally) for each case that a program writes, on the CPU and, with libraries to preload, on the
    emulated GPU. arguments: PROGRAM [LIBRARIES [SHARE]]. SHARE, 1 or 2: every other case is enough there, from this one
    on. Returns an exit status."""
    program, *libraries = arguments
    wrong = compare_on("cpu", [program, "cpu"], {}, functions, compare)
    if libraries:
        preload, *share = libraries
        wrong += compare_on("cuda", [program, "cuda", *share], {"LD_PRELOAD": preload}, functions, compare)
    return min(wrong, 1)


def compare_on(device, command, environment, functions, compare):
    """Returns how much is wrong. command: a program, its device and, if it writes every other case, its share."""
    tally, seen = Tally(), set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}) as writer:
        for line in writer.stdout:
            case = json.loads(line)
            key = case["name"], case.get("dtype")
            if key in seen:
                tally.fail(f"{key}: written twice")
            seen.add(key)
            if case["name"] in functions:
                compare(case, tally)
            else:
                tally.fail(f"{case['name']}: a case without a function")
    for name in sorted(functions.keys() - {name for name, _ in seen}) if len(command) == 2 else ():
        tally.fail(f"{name}: a function without a case")
    if writer.returncode != 0:
        tally.fail(f"{command} ended with {writer.returncode}")
    worst = ", ".join(f"{ratio:.2f} in {dtype} ({what})" for dtype, (ratio, what) in tally.worst.items())
    print(f"{device}: {len(seen)} cases, {tally.elements} elements; worst ratio to the bound: {worst}; "
          f"{tally.wrong} wrong")
    return tally.wrong
