#!/usr/bin/env python3
"""Compares giro's convolutions and poolings of random geometry, and their gradients, with PyTorch in double.

usage: geometry_test.py RUN_GEOMETRIES [FIRST_SEED [COUNT [DEVICE [PRELOAD]]]]

COUNT, or GIRO_GEOMETRIES, is the number of convolutions, and of poolings. PRELOAD: what RUN_GEOMETRIES needs in
LD_PRELOAD for the emulated GPU. Exits with 77 if there is no PyTorch.
"""

import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import python_environment

torch = python_environment.import_module("torch")

F = torch.nn.functional
GEOMETRIES = 40
UNIT = 2.0**-24  # of f32


def tolerance(terms, magnitude):
    """Of a sum of `terms` products, of these magnitudes in total, in f32: as in tests/kernels/op_test.h."""
    return (8 + terms**0.5) * UNIT * magnitude


class Draw(random.Random):
    def pair(self, low, high):
        return [self.randint(low, high)] * 2 if self.random() < 0.5 else [self.randint(low, high) for _ in range(2)]

    def padding(self, most):
        """"same", one number for all sides, or (before, after) of the rows and of the columns."""
        kind = self.randrange(4)
        if kind == 0:
            return "same"
        if kind == 1:
            return self.randint(0, min(most))
        sides = [[self.randint(0, each) for _ in range(2)] for each in most]
        return sides if kind == 2 else [[side[0]] * 2 for side in sides]

    def array(self, *shape):
        values = torch.rand(shape, generator=torch.Generator().manual_seed(self.randrange(2**31))) * 2 - 1
        return values.double()


def sides(case, size, axis):
    """The padding before and after an axis of this many pixels."""
    padding = case["padding"]
    if isinstance(padding, int):
        return [padding] * 2
    if padding != "same":
        return padding[axis]
    stride, reach = case["strides"][axis], (case["window"][axis] - 1) * case["dilation"][axis] + 1
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return [total // 2, total - total // 2]


def pixels(draw, case, most=12):
    """A size of images that a window fits into."""
    sizes = []
    for axis in range(2):
        reach = (case["window"][axis] - 1) * case["dilation"][axis] + 1
        least = 1 if case["padding"] == "same" else max(1, reach - sum(sides(case, 0, axis)))
        sizes.append(draw.randint(least, max(least, most)))
    return sizes


def convolution(draw):
    kind = draw.choice(["conv", "conv", "conv2d", "conv2d", "conv2d_transpose", "conv1d"])
    case = {"kind": kind, "strides": draw.pair(1, 3), "dilation": [1, 1], "groups": 1, "window": draw.pair(1, 4)}
    if kind == "conv1d":
        case["strides"][0] = case["window"][0] = 1
    inputs, features = draw.randint(1, 9), draw.randint(1, 9)
    if kind != "conv":
        case["dilation"] = draw.pair(1, 3)
        case["groups"] = draw.choice([1, 1, 2, 3])
        inputs, features = inputs * case["groups"], features * case["groups"]
    elif draw.random() < 0.2:  # for Winograd's algorithm
        case |= {"strides": [1, 1], "window": [3, 3]}
        inputs, features = 32, 32
    # More than a window reaches, too: then some results are of zeros alone.
    case["padding"] = draw.padding([size + 1 for size in case["window"]])
    if kind != "conv" and case["padding"] == "same":
        case["padding"] = 1
    if kind == "conv1d":
        case["padding"] = [[0, 0], sides(case, 0, 1)]
    sizes = pixels(draw, case)
    if kind == "conv1d":
        sizes[0] = 1
    batch = draw.randint(1, 3)
    w = draw.array(features, *case["window"], inputs // case["groups"])
    if kind == "conv2d_transpose":
        case["more"] = [draw.randrange(stride) for stride in case["strides"]]
        for axis in range(2):  # at least one pixel
            lost = sum(sides(case, 0, axis)) - (case["window"][axis] - 1) * case["dilation"][axis]
            sizes[axis] = max(sizes[axis], 1 + -(-max(0, lost) // case["strides"][axis]))
        arrays = {"x": draw.array(batch, *sizes, features), "w": w, "b": draw.array(inputs)}
    else:
        arrays = {"x": draw.array(batch, *sizes, inputs), "w": w, "b": draw.array(features)}
    if draw.random() < 0.5:
        del arrays["b"]
    return case, arrays


def pooling(draw):
    case = {"kind": draw.choice(["avg_pool", "max_pool"]), "strides": draw.pair(1, 4), "dilation": [1, 1],
            "window": draw.pair(1, 5), "count_include_pad": draw.random() < 0.5}
    case["padding"] = draw.padding([size - 1 for size in case["window"]])
    return case, {"x": draw.array(draw.randint(1, 3), *pixels(draw, case), draw.choice([1, 3, 4, 8, 17]))}


def in_torch(case, arrays):
    """The result, images (N, H, W, C). PyTorch's own padding is used where it has it: where both sides are the same."""
    x, strides, dilation = arrays["x"].permute(0, 3, 1, 2), case["strides"], case["dilation"]
    pads = [sides(case, x.shape[2 + axis], axis) for axis in range(2)]
    around = [*pads[1], *pads[0]]  # as F.pad takes it
    is_even = all(before == after for before, after in pads)
    own = [before for before, _ in pads]
    if case["kind"] == "conv2d_transpose":
        w, more = arrays["w"].permute(0, 3, 1, 2), case["more"]
        if is_even:
            y = F.conv_transpose2d(x, w, arrays.get("b"), strides, own, more, case["groups"], dilation)
        else:
            y = F.conv_transpose2d(x, w, None, strides, 0, 0, case["groups"], dilation)
            y = F.pad(y, [-around[0], more[1] - around[1], -around[2], more[0] - around[3]])
            y = y + arrays["b"][:, None, None] if "b" in arrays else y
    elif "w" in arrays:
        w = arrays["w"].permute(0, 3, 1, 2)
        if not is_even:
            x, own = F.pad(x, around), 0
        y = F.conv2d(x, w, arrays.get("b"), strides, own, dilation, case["groups"])
    else:
        window, counts = case["window"], case["count_include_pad"]
        if not (is_even and all(2 * pad <= size for pad, size in zip(own, window))):
            ones = F.pad(torch.ones_like(x), around)
            x, own = F.pad(x, around, value=-torch.inf if case["kind"] == "max_pool" else 0), 0
            if case["kind"] == "avg_pool" and not counts:
                y = F.avg_pool2d(x, window, strides) / F.avg_pool2d(ones, window, strides)
                return y.permute(0, 2, 3, 1)
        if case["kind"] == "max_pool":
            y = F.max_pool2d(x, window, strides, own)
        else:
            y = F.avg_pool2d(x, window, strides, own, count_include_pad=counts)
    return y.permute(0, 2, 3, 1)


def with_gradients(case, arrays, dy=None, draw=None):
    leaves = {name: array.clone().requires_grad_() for name, array in arrays.items()}
    y = in_torch(case, leaves)
    dy = draw.array(*y.shape) if dy is None else dy
    y.backward(dy)
    return {"y": y.detach(), **{f"d{name}": leaf.grad for name, leaf in leaves.items()}}, dy


def terms_of(case, arrays, dy):
    """How many terms a result, and each gradient, sums at most."""
    taps = case["window"][0] * case["window"][1]
    if "w" not in arrays:
        return {"y": taps, "dx": taps}
    features, per_group = arrays["w"].shape[0] // case["groups"], arrays["w"].shape[3]
    to_y, to_x = taps * per_group + 1, taps * features
    if case["kind"] == "conv2d_transpose":
        to_y, to_x = to_x + 1, to_y
    spread = (arrays["x"] if case["kind"] == "conv2d_transpose" else dy)[..., 0].numel()
    return {"y": to_y, "dx": to_x, "dw": spread, "db": dy[..., 0].numel()}


def asked(seed, draw):
    case, arrays = (convolution if seed % 2 == 0 else pooling)(draw)
    expected, dy = with_gradients(case, arrays, draw=draw)
    if case["kind"] == "max_pool":
        magnitudes = {"y": 0, "dx": with_gradients(case, arrays, dy.abs())[0]["dx"]}
    else:
        absolute = {name: array.abs() for name, array in arrays.items()}
        magnitudes = with_gradients(case, absolute, dy.abs())[0]
    terms = terms_of(case, arrays, dy)
    errors = {name: tolerance(terms[name], magnitudes[name]) for name in expected}
    return case, {**arrays, "dy": dy}, {name: (expected[name], errors[name]) for name in expected}


def what_is_wrong(found, value, error):
    """How a result differs, or None."""
    if found["shape"] != list(value.shape):
        return f"has shape {found['shape']}, expected {list(value.shape)}"
    off = (torch.tensor(found["values"], dtype=torch.float64).reshape(value.shape) - value).abs()
    is_wrong = ~(off <= error)
    if not is_wrong.any():
        return None
    at = tuple(is_wrong.nonzero()[0].tolist())
    return f"{int(is_wrong.sum())} of {off.numel()} elements are wrong; {at} by {off[at]:.3g} of {value[at]:.6g}"


def main(run_geometries, first="0", count=None, device="cpu", preload=""):
    count = int(count or os.environ.get("GIRO_GEOMETRIES", GEOMETRIES))
    wrong, elements, kinds = 0, 0, {}
    environment = os.environ | ({"LD_PRELOAD": preload} if preload else {})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([run_geometries, device], env=environment, text=True, **pipes) as giro:
        for seed in range(int(first), int(first) + 2 * count):
            case, arrays, expected = asked(seed, Draw(seed))
            written = {name: {"shape": list(x.shape), "values": x.flatten().tolist()} for name, x in arrays.items()}
            giro.stdin.write(json.dumps({**case, "arrays": written}) + "\n")
            giro.stdin.flush()
            line = giro.stdout.readline()
            text = f"seed {seed}: {case}, x {list(arrays['x'].shape)}"
            if not line:
                print(f"{text}: {run_geometries} ended")
                return 1
            kinds[case["kind"]] = kinds.get(case["kind"], 0) + 1
            found = json.loads(line)
            for name, (value, error) in expected.items():
                elements += value.numel()
                message = what_is_wrong(found[name], value, error)
                if message is not None:
                    print(f"{text}: {name}: {message}")
                    wrong += 1
        giro.stdin.close()
    print(f"{device}: {', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))}: {elements:,} elements compared, "
          f"{wrong} results wrong")
    return int(wrong > 0 or giro.returncode != 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
