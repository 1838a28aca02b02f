#!/usr/bin/env python3
"""Compares giro's results of random programs, and their gradients, with NumPy in double.

usage: programs_test.py WRITE_PROGRAMS [FIRST_SEED [COUNT [DEVICE]]]

GIRO_EXPRESSIONS also sets the number of programs. Only elements with a derived error bound are compared
(numbers_with_errors.py); fewer than half is a failure.
"""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import python_environment

np = python_environment.import_module("numpy")

import numbers_with_errors as n
import variables as v

PROGRAMS = 1000
LEAST_SHARE = 0.5


def array_of(written):
    return np.array(written["values"], float).reshape(written["shape"])


def evaluated(program):
    """Tuples of a name, the expected result, and giro's result."""
    xs = [v.parameter(n.Number(each["dtype"], array_of(each))) for each in program["inputs"]]
    values = list(xs)
    for op, inputs, attributes in program["ops"]:
        values.append(v.OPS[op](*(values[k] for k in inputs), **attributes))
    results = [values[k] for k in program["which"]]
    pairs = list(zip((f"value {k}" for k in program["which"]), results, program["results"]))
    if program["first"]:
        firsts = v.gradients(v.sum_of_all(results), xs)
        pairs += zip((f"gradient by {k}" for k in range(len(xs))), firsts, program["first"])
    if program["second"]:
        seconds = v.gradients(v.sum_of_all(firsts), xs)
        pairs += zip((f"second gradient by {k}" for k in range(len(xs))), seconds, program["second"])
    return pairs


class Tally:
    def __init__(self):
        self.wrong, self.compared, self.elements, self.tightness = 0, {}, {}, []

    def add(self, program):
        for name, wanted, written in evaluated(program):
            wanted, found = wanted.number, array_of(written)
            kind = name.rsplit(" ", 1)[0]
            self.elements[kind] = self.elements.get(kind, 0) + found.size
            self.compared[kind] = self.compared.get(kind, 0) + int(wanted.known.sum())
            relative = wanted.error / np.maximum(np.abs(wanted.value), 1e-30)
            self.tightness += list(relative[wanted.known & (wanted.value != 0)])
            if wanted.dtype != written["dtype"] or wanted.shape != found.shape:
                of_found, of_wanted = (written["dtype"], found.shape), (wanted.dtype, wanted.shape)
                self.report(program, f"{name}: found {of_found}, expected {of_wanted}")
                continue
            off = np.abs(found - wanted.value)
            for place in np.argwhere(wanted.known & ~(off <= wanted.error * (1 + 2.0**-20)))[:3]:
                at = tuple(place)
                self.report(
                    program,
                    f"{name}, element {at}: found {found[at]!r}, expected {wanted.value[at]!r} "
                    f"within {wanted.error[at]:.3g}",
                )

    def report(self, program, what):
        self.wrong += 1
        print(f"seed {program['seed']}: {what}")
        if self.wrong == 1:
            for k, each in enumerate(program["inputs"]):
                print(f"  {k}: {each['dtype']} {each['shape']}")
            for k, (op, inputs, attributes) in enumerate(program["ops"]):
                print(f"  {k + len(program['inputs'])}: {op} {inputs} {attributes or ''}")


def main(write_programs, first="0", count=None, device="cpu"):
    count = int(count or os.environ.get("GIRO_EXPRESSIONS", PROGRAMS))
    tally = Tally()
    with subprocess.Popen([write_programs, first, str(count), device], stdout=subprocess.PIPE, text=True) as writer:
        for line in writer.stdout:
            tally.add(json.loads(line))
    if writer.returncode != 0:
        print(f"{write_programs} ended with {writer.returncode}")
        return 1
    for kind, elements in tally.elements.items():
        print(f"{kind}: {tally.compared[kind]} of {elements} elements compared, {tally.compared[kind] / elements:.1%}")
        if tally.compared[kind] < LEAST_SHARE * elements:
            print(f"expected at least {LEAST_SHARE:.0%}")
            tally.wrong += 1
    print(f"relative bounds: half are below {np.median(tally.tightness):.2g}; {tally.wrong} wrong of {count} programs")
    return min(tally.wrong, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
