#!/usr/bin/env python3
"""Checks the table of layers in docs/pytorch.md: with the weights carried over as it says, giro's layers compute what
PyTorch's do.

usage: layers_test.py RUN_LAYERS PAGE

Exits with 77 if there is no PyTorch.
"""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))
import python_environment

torch = python_environment.import_module("torch")

nn = torch.nn
TOLERANCE = 1e-6  # for results of about 1, from weights of about 1 / sqrt(terms)
NOT_COMPARED = {"nn::rms_norm()"}  # its epsilon differs, as the table says
IMAGES, SEQUENCES = (2, 64, 8, 7), (2, 5, 64)
# Of modules that take other inputs; images are (N, C, H, W).
SHAPES = {"Linear": (4, 784), "Sequential": (2, 3, 4, 5), "Conv2d": (2, 3, 8, 7), "LSTM": (2, 5, 32),
          "GRU": (2, 5, 32), "LayerNorm": SEQUENCES, "MultiheadAttention": SEQUENCES, "Embedding": (2, 5)}


def rows(page):
    """PyTorch's layer, giro's, and the leaves, of the table's rows that have code for both."""
    for line in page.read_text().splitlines():
        cells = re.split(r"\s*\|\s*", line.strip("| "))
        if len(cells) >= 2 and re.fullmatch(r"`nn\.\w+\(.*\)`", cells[0]) and cells[1].startswith("`nn::"):
            yield cells[0].strip("`"), cells[1].strip("`"), dict(re.findall(r"`([\w/]+)`: `([^`]+)`", cells[-1]))


def module_of(text, generator):
    module = eval(text, {"nn": nn}).double().eval()
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point():
            spread = max(1, tensor[0].numel()) ** -0.5
            drawn = (torch.rand(tensor.shape, generator=generator) * 2 - 1) * spread
            # As f32, which giro gets; a scale or a variance is about 1.
            tensor.data = (drawn / 2 + 1 if tensor.dim() == 1 and "bias" not in name else drawn).double()
    return module


def leaves_of(module, how):
    last = module[-1] if isinstance(module, nn.Sequential) else module
    names = {name: getattr(last, name) for name in dir(last) if not name.startswith("__")}
    values = {leaf: eval(text, {"cat": torch.cat, "zeros": torch.zeros, **names}) for leaf, text in how.items()}
    own = next((leaf[: -len("kernel")] + "bias" for leaf in how if leaf.endswith("kernel")), "bias")
    if getattr(last, "bias", None) is not None and isinstance(last.bias, torch.Tensor) and how:
        values.setdefault(own, last.bias)
    return values


def channels_last(x):
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def written(x, dtype="f32"):
    return {"dtype": dtype, "shape": list(x.shape), "values": x.flatten().tolist()}


def compared(text, layer, how, giro, generator):
    """The largest difference of the results, or why there is none."""
    module = module_of(text, generator)
    shape = SHAPES.get(type(module).__name__, IMAGES)
    x = (torch.rand(shape, generator=generator) * 2 - 1).double()
    if isinstance(module, nn.Embedding):
        x = torch.randint(module.num_embeddings, shape, generator=generator)
    y = module(x, x, x) if isinstance(module, nn.MultiheadAttention) else module(x)
    y = channels_last(y[0] if isinstance(y, tuple) else y).detach()
    leaves = {leaf: written(value.detach()) for leaf, value in leaves_of(module, how).items()}
    of_x = written(x, "i32") if isinstance(module, nn.Embedding) else written(channels_last(x))
    giro.stdin.write(json.dumps({"layer": layer, "leaves": leaves, "x": of_x}) + "\n")
    giro.stdin.flush()
    found = json.loads(giro.stdout.readline() or "null")
    if found is None or found["shape"] != list(y.shape):
        return f"found {found and found['shape']}, expected shape {list(y.shape)}"
    return float((torch.tensor(found["values"], dtype=torch.float64).reshape(y.shape) - y).abs().max())


def main(run_layers, page):
    generator = torch.Generator().manual_seed(1)
    wrong = 0
    with subprocess.Popen([run_layers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as giro:
        known = {}  # by its text without spaces
        while line := giro.stdout.readline().strip():
            known["".join(json.loads(line).split())] = json.loads(line)
        for text, layer, how in rows(pathlib.Path(page)):
            name = known.pop("".join(layer.split()), None)
            if name is None:
                print(f"{layer}: not compared")
                wrong += layer not in NOT_COMPARED
                continue
            off = compared(text, name, how, giro, generator)
            is_right = isinstance(off, float) and off <= TOLERANCE
            print(f"{text}: {off if isinstance(off, str) else f'{off:.2g}'}{'' if is_right else ', wrong'}")
            wrong += not is_right
        giro.stdin.close()
    for name in known.values():
        print(f"{name}: not in {page}")
    return int(wrong > 0 or len(known) > 0 or giro.returncode != 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
