#!/usr/bin/env python3
"""Compares giro's chains of views, with stores in between and gradients, with NumPy, to the bit.

usage: chains_test.py WRITE_CHAINS [FIRST_SEED [COUNT [DEVICE]]]

GIRO_CHAINS also sets the number of chains. Views only move elements, so NumPy moves their numbers: where each element of
a result comes from says what it is and where its gradient goes.
"""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import python_environment

np = python_environment.import_module("numpy")

CHAINS = 500
SHAPES = [(6, 4), (2, 3, 5)]
ELEMENTS = 54  # of both leaves: 1, 2, 3, ...


def sliced(x, axis, begin, end, step):
    return x[(slice(None),) * axis + (slice(begin, end, step),)]


def padded(x, axis, before, after):
    return np.pad(x, [(before, after) if i == axis else (0, 0) for i in range(x.ndim)])


VIEWS = {
    "slice": sliced,
    "reshape": np.reshape,
    "transpose": np.transpose,
    "flip": np.flip,
    "stack": lambda x, axis: np.stack([x, x], axis),
    "pad": padded,
    "broadcast": np.broadcast_to,
}


def expected(chain):
    """The results, the leaves, and the gradients. Elements are numbered from 1; 0 is a zero of a pad."""
    numbers = np.arange(1, ELEMENTS + 1)
    leaves = [numbers[:24].reshape(SHAPES[0]), numbers[24:].reshape(SHAPES[1])]
    # What an element is, and which parameter's gradient it belongs to: a value that was stored belongs to none.
    values = [(leaf, leaf) for leaf in leaves]
    for op, k, *attributes in chain["ops"]:
        x = values[k]
        if op == "concatenate":
            other, axis = attributes
            values.append(tuple(np.concatenate([a, b], axis) for a, b in zip(x, values[other])))
        elif op == "set":
            shape = SHAPES[attributes[0]]
            leaves[attributes[0]] = x[0].reshape(-1)[: np.prod(shape)].reshape(shape)
            values.append((leaves[attributes[0]], np.zeros(shape, int)))
        else:
            values.append(tuple(VIEWS[op](each, *attributes) for each in x))
    gradient = np.zeros(ELEMENTS + 1)
    weight = 0
    for k in chain["which"]:
        of = values[k][1].reshape(-1)
        np.add.at(gradient, of, (np.arange(of.size) + weight) % 7 + 1)
        weight += of.size
    results = [values[k][0].reshape(-1) for k in chain["which"]]
    return results, [*(leaf.reshape(-1) for leaf in leaves), gradient[1:25], gradient[25:]]


def main(write_chains, first="0", count=None, device="cpu"):
    count = int(count or os.environ.get("GIRO_CHAINS", CHAINS))
    wrong, views, stores = 0, 0, 0
    with subprocess.Popen([write_chains, first, str(count), device], stdout=subprocess.PIPE, text=True) as writer:
        for line in writer.stdout:
            chain = json.loads(line)
            views += len(chain["ops"])
            stores += sum(op[0] == "set" for op in chain["ops"])
            results, leaves = expected(chain)
            for way in "eager", "recorded":
                pairs = [*zip(results, chain[way]), *zip(leaves, chain[f"{way}_leaves"])]
                same = [np.array_equal(wanted, np.array(found)) for wanted, found in pairs]
                if all(same):
                    continue
                wrong += 1
                print(f"seed {chain['seed']}, {way}: result or leaf {same.index(False)} of {len(same)} differs")
                if wrong == 1:
                    for k, op in enumerate(chain["ops"]):
                        print(f"  {k + 2}: {op}")
                    print(f"  of {chain['which']}")
    if writer.returncode != 0:
        print(f"{write_chains} ended with {writer.returncode}")
        return 1
    print(f"{count} chains of {views} views, {stores} of them stores: {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
