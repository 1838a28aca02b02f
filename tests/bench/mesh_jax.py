#!/usr/bin/env python3
"""What XLA sends between four devices in a training step, counted in the program that it compiles.

usage: mesh_jax.py [--cases REGEX] [--text]

Each case is a model, a mesh of CPU devices and a placement of its parameters and rows; jax.jit partitions the step
(loss, gradients, SGD). A rank's bytes are those that it sends if collectives are rings: of n devices, an all-reduce of
b bytes sends 2 (n - 1) / n b, an all-gather or reduce-scatter (n - 1) / n of the whole, an all-to-all (n - 1) / n b,
and a permutation b. --text prints the collectives one by one. Needs jax (0.10.2 was tried).
"""

import argparse
import collections
import functools
import os
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

jax.config.update("jax_platforms", "cpu")

BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def cross_entropy(logits, labels):
    largest = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    picked = jnp.take_along_axis(logits - largest, labels[..., None], -1)[..., 0]
    return jnp.mean(jnp.log(jnp.sum(jnp.exp(logits - largest), -1)) - picked)


# Models: (parameters by path, batch, loss, rules for tensor parallelism). A rule is (a pattern of paths, placement).
def mlp(rows):
    shapes = {"up/kernel": (64, 256), "up/bias": (256,), "down/kernel": (256, 64), "down/bias": (64,)}

    def loss(p, batch):
        h = jax.nn.relu(batch["x"] @ p["up/kernel"] + p["up/bias"])
        y = h @ p["down/kernel"] + p["down/bias"]
        return jnp.mean((y - batch["y"]) ** 2)

    rules = [("up/kernel", P(None, "model")), ("up/bias", P("model")), ("down/kernel", P("model", None))]
    return shapes, {"x": ((rows, 64), None), "y": ((rows, 64), None)}, loss, rules


def norm(p, name, x):
    d = x - x.mean(-1, keepdims=True)
    return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * p[f"{name}/scale"] + p[f"{name}/bias"]


def gpt2(rows, layers=4, heads=12, size=16, length=64, vocabulary=256):
    width = heads * size
    shapes = {"tokens": (vocabulary, width), "places": (length, width), "last/scale": (width,), "last/bias": (width,)}
    for i in range(layers):
        for each in ("first", "second"):
            shapes |= {f"{i}/{each}/scale": (width,), f"{i}/{each}/bias": (width,)}
        # Queries, keys and values are separate, so that each can be divided by heads.
        for each in "qkv":
            shapes |= {f"{i}/{each}/kernel": (width, width), f"{i}/{each}/bias": (width,)}
        shapes |= {f"{i}/out/kernel": (width, width), f"{i}/out/bias": (width,)}
        shapes |= {f"{i}/up/kernel": (width, 4 * width), f"{i}/up/bias": (4 * width,)}
        shapes |= {f"{i}/down/kernel": (4 * width, width), f"{i}/down/bias": (width,)}

    def dense(p, name, x):
        return x @ p[f"{name}/kernel"] + p[f"{name}/bias"]

    def loss(p, batch):
        ids = batch["x"]
        x = p["tokens"][ids] + p["places"]
        for i in range(layers):
            h = norm(p, f"{i}/first", x)
            q, k, v = (dense(p, f"{i}/{each}", h).reshape(*ids.shape, heads, size) for each in "qkv")
            scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(size)
            scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9)
            h = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(*ids.shape, width)
            x = x + dense(p, f"{i}/out", h)
            x = x + dense(p, f"{i}/down", jax.nn.gelu(dense(p, f"{i}/up", norm(p, f"{i}/second", x))))
        return cross_entropy(norm(p, "last", x) @ p["tokens"].T, batch["y"])

    rules = [("tokens", P("model", None)), ("./[qkv]/kernel|./up/kernel", P(None, "model")),
             ("./[qkv]/bias|./up/bias", P("model")), ("./out/kernel|./down/kernel", P("model", None))]
    ids = ((rows, length), vocabulary)
    return shapes, {"x": ids, "y": ids}, loss, rules


def resnet(rows, features=16, blocks=2):
    shapes = {"stem": (3, 3, 3, features), "head/kernel": (features, 10), "head/bias": (10,)}
    for i in range(blocks):
        for each in "ab":
            shapes |= {f"{i}/{each}/kernel": (3, 3, features, features)}
            shapes |= {f"{i}/{each}/scale": (features,), f"{i}/{each}/bias": (features,)}

    def conv(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def batch_norm(p, name, x):
        d = x - x.mean((0, 1, 2))
        return d * jax.lax.rsqrt((d * d).mean((0, 1, 2)) + 1e-5) * p[f"{name}/scale"] + p[f"{name}/bias"]

    def loss(p, batch):
        x = conv(batch["x"], p["stem"])
        for i in range(blocks):
            h = jax.nn.relu(batch_norm(p, f"{i}/a", conv(x, p[f"{i}/a/kernel"])))
            x = jax.nn.relu(x + batch_norm(p, f"{i}/b", conv(h, p[f"{i}/b/kernel"])))
        return cross_entropy(x.mean((1, 2)) @ p["head/kernel"] + p["head/bias"], batch["y"])

    rules = [("./a/kernel", P(None, None, None, "model")), ("./a/(scale|bias)", P("model")),
             ("./b/kernel", P(None, None, "model", None))]
    return shapes, {"x": ((rows, 16, 16, 3), None), "y": ((rows,), 10)}, loss, rules


MODELS = {"mlp, 2048 rows": functools.partial(mlp, 2048), "mlp, 32 rows": functools.partial(mlp, 32),
          "gpt2, 8 windows": functools.partial(gpt2, 8), "resnet, 32 images": functools.partial(resnet, 32)}
MESHES = {"data": (4, 1), "fully sharded": (4, 1), "tensor": (1, 4), "data and tensor": (2, 2)}


def placement(name, path, shape, rules):
    if name == "fully sharded":  # the largest axis that four divide
        axes = [a for a, n in enumerate(shape) if n % 4 == 0]
        most = max(axes, key=lambda a: shape[a], default=None)
        return P(*("data" if a == most else None for a in range(len(shape))))
    if "tensor" in name:
        for pattern, spec in rules:
            if re.fullmatch(pattern, path):
                return spec
    return P()


def compiled(model, name):
    shapes, inputs, loss, rules = MODELS[model]()
    mesh = jax.make_mesh(MESHES[name], ("data", "model"))
    of = {path: NamedSharding(mesh, placement(name, path, shape, rules)) for path, shape in shapes.items()}
    of_batch = {path: NamedSharding(mesh, P("data")) for path in inputs}

    def step(p, batch):
        value, grads = jax.value_and_grad(loss)(p, batch)
        return jax.tree.map(lambda x, g: x - 0.1 * g, p, grads), value

    jitted = jax.jit(step, in_shardings=(of, of_batch), out_shardings=(of, NamedSharding(mesh, P())))
    params = {path: jax.ShapeDtypeStruct(shape, jnp.float32) for path, shape in shapes.items()}
    batch = {path: jax.ShapeDtypeStruct(shape, jnp.float32 if ids is None else jnp.int32)
             for path, (shape, ids) in inputs.items()}
    return jitted.lower(params, batch).compile().as_text(), shapes


def group_size(line):
    """How many devices take part together: XLA lists them, counts them, or names axes of a mesh."""
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return groups.split("}")[0].count(",") + 1
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups)[1])
    sizes, named = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    of_axis = {axis: int(size) for axis, size in re.findall(r"('\w+')=(\d+)", sizes)}
    return int(np.prod([of_axis[axis] for axis in re.findall(r"'\w+'", named)]))


def collectives(text):
    """Each collective's kind, the bytes that a rank of a ring sends for it, and its line."""
    for line in text.splitlines():
        found = re.search(rf"= (.*?) ({'|'.join(KINDS)})(-start)?\(", line)
        if not found:
            continue
        kind, n = found[2], 1 if found[2] == "collective-permute" else group_size(line)
        size = sum(BYTES[dtype] * int(np.prod([int(d) for d in dims.split(",") if d], initial=1))
                   for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", found[1]))
        share = (n - 1) / n
        sent = {"all-reduce": 2 * share * size, "all-gather": share * size, "reduce-scatter": share * size * n,
                "all-to-all": share * size, "collective-permute": size}[kind]
        yield kind, sent, line.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="only those whose name matches")
    parser.add_argument("--text", action="store_true", help="print each collective")
    options = parser.parse_args()
    print(f"jax {jax.__version__}\n\n| case | KB of parameters | KB that a rank sends | of which, in so many collectives |")
    print("|---|---|---|---|")
    for model in MODELS:
        for name in MESHES:
            if not re.search(options.cases, f"{model}, {name}"):
                continue
            text, shapes = compiled(model, name)
            by_kind = collections.defaultdict(lambda: [0, 0.0])
            for kind, sent, line in collectives(text):
                by_kind[kind][0] += 1
                by_kind[kind][1] += sent
                if options.text:
                    print(line[:200])
            size = 4 * sum(int(np.prod(shape)) for shape in shapes.values())
            kinds = ", ".join(f"{kind} {sent / 1000:.1f} in {count}" for kind, (count, sent) in by_kind.items())
            total = sum(sent for _, sent in by_kind.values())
            print(f"| {model}, {name} | {size / 1000:.1f} | {total / 1000:.1f} | {kinds} |", flush=True)


if __name__ == "__main__":
    main()
