"""The functions of layer_cases.cpp. They take the inputs in order, and the parameters and variables p by name."""

import functools

import jax
import jax.numpy as jnp

from ops import attention, convolution, rotary


def affine(p, name, x):
    y = x @ p[f"{name}/kernel"]
    return y + p[f"{name}/bias"] if f"{name}/bias" in p else y


def standardized(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + epsilon)


def layer_norm(x, p, name=""):
    y = standardized(x, -1, 1e-5)
    return y * p[f"{name}scale"] + p[f"{name}bias"] if f"{name}scale" in p else y


def rms_norm(x, p):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["scale"]


def group_norm(x, p, groups=2):
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    return standardized(parts, (1, 3), 1e-5).reshape(x.shape) * p["scale"] + p["bias"]


def batch_norm(x, p, momentum=0.75):
    axes = tuple(range(x.ndim - 1))
    statistics = {"mean": x.mean(axes), "var": x.var(axes)}
    paths = {name: f"batch_stats/{name}" for name in statistics}
    written = {path: momentum * p[path] + (1 - momentum) * statistics[name] for name, path in paths.items()}
    return standardized(x, axes, 1e-5) * p["scale"] + p["bias"], written


def batch_norm_by_averages(x, p):
    y = (x - p["batch_stats/mean"]) / jnp.sqrt(p["batch_stats/var"] + 1e-5)
    return y * p["scale"] + p["bias"]


def lstm(x, p, reverse=False):
    features = p["recurrent_kernel"].shape[0]
    h = c = jnp.zeros((x.shape[0], features), x.dtype)
    steps = [None] * x.shape[1]
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        z = x[:, t] @ p["kernel"] + h @ p["recurrent_kernel"] + p.get("bias", 0)
        i, f, g, o = jnp.split(z, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        steps[t] = h
    y = jnp.stack(steps, 1)
    return (y, {"carry/h": h, "carry/c": c}) if "carry/h" in p else y


def gru(x, p, reverse=False):
    h = jnp.zeros((x.shape[0], p["recurrent_kernel"].shape[0]), x.dtype)
    steps = [None] * x.shape[1]
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        r_x, z_x, n_x = jnp.split(x[:, t] @ p["kernel"] + p.get("bias", 0), 3, -1)
        r_h, z_h, n_h = jnp.split(h @ p["recurrent_kernel"], 3, -1)
        n = jnp.tanh(n_x + jax.nn.sigmoid(r_x + r_h) * (n_h + p.get("recurrent_bias", 0)))
        z = jax.nn.sigmoid(z_x + z_h)
        h = (1 - z) * n + z * h
        steps[t] = h
    return jnp.stack(steps, 1)


def swiglu(x, p):
    return affine(p, "down", jax.nn.silu(affine(p, "gate", x)) * affine(p, "up", x))


def residual(x, p):
    prefix = next(name for name in p if name.endswith("dense0/kernel")).removesuffix("dense0/kernel")
    return x + affine(p, f"{prefix}dense1", jnp.tanh(affine(p, f"{prefix}dense0", x)))


def positions(ids, p):
    tables = [p[name] for name in sorted(p)]
    return tables[0][ids] + tables[1][: ids.shape[1]]


def in_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1)


def self_attention(x, p, heads, kv_heads, is_causal=False, rope_base=0, name=""):
    z = affine(p, f"{name}qkv", x)
    features = z.shape[-1] // (heads + 2 * kv_heads)
    query, key, value = jnp.split(z, [heads * features, (heads + kv_heads) * features], -1)
    query, key, value = in_heads(query, heads), in_heads(key, kv_heads), in_heads(value, kv_heads)
    if rope_base:
        query, key = (rotary(each, jnp.arange(x.shape[1]), rope_base) for each in (query, key))
    return affine(p, f"{name}out", attention(query, key, value, is_causal=is_causal).reshape(*x.shape[:2], -1))


def attention_to_context(x, context, mask, p):
    query = in_heads(affine(p, "query", x), 2)
    key, value = (in_heads(each, 2) for each in jnp.split(affine(p, "kv", context), 2, -1))
    return affine(p, "out", attention(query, key, value, mask).reshape(x.shape))


def transformer_block(x, p):
    h = x + self_attention(layer_norm(x, p, "layer_norm0/"), p, 2, 2, is_causal=True, name="attention0/")
    inner = jax.nn.gelu(affine(p, "dense0", layer_norm(h, p, "layer_norm1/")))
    return h + affine(p, "dense1", inner)


FUNCTIONS = {
    "layer_norm": layer_norm,
    "layer_norm without an affine map": lambda x: layer_norm(x, {}),
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "batch_norm by moving averages": batch_norm_by_averages,
    "lstm": lstm,
    "lstm, reverse, carry, without biases": functools.partial(lstm, reverse=True),
    "gru": gru,
    "gru, reverse, without biases": functools.partial(gru, reverse=True),
    "swiglu": swiglu,
    "dense layers, residual, dropout": residual,
    "conv layer": lambda x, p: convolution(x, p["kernel"], p["bias"], stride=(2, 1), padding="SAME"),
    "embedding layer, positions": positions,
    "multi_head_attention": functools.partial(self_attention, heads=3, kv_heads=3),
    "multi_head_attention, rotary, causal, grouped queries":
        functools.partial(self_attention, heads=4, kv_heads=2, is_causal=True, rope_base=100),
    "multi_head_attention to a context": attention_to_context,
    "transformer_block": transformer_block,
}
