"""The functions of op_cases.cpp. They take the inputs in order."""

import functools

import jax
import jax.numpy as jnp
from jax import lax


def convolution(x, w, b=0, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1):
    y = lax.conv_general_dilated(
        x, w, stride, padding, rhs_dilation=dilation, dimension_numbers=("NHWC", "OHWI", "NHWC"),
        feature_group_count=groups,
    )
    return y + b


def conv(**options):
    return lambda x, w, b: convolution(x, w, b, **options)


def conv_transpose(shape, **options):
    """A transposed convolution to images of that shape."""

    def transposed(x, w, b):
        images = jax.ShapeDtypeStruct(shape, x.dtype)
        return jax.linear_transpose(lambda y: convolution(y, w, **options), images)(x)[0] + b

    return transposed


def conv1d(x, w, b):
    y = convolution(x[:, None], w[:, None], b, stride=(1, 2), padding=((0, 0), (4, 0)), dilation=(1, 2))
    return y[:, 0]


def windows(x):
    """Windows of 3 by 2 at every second row and column, as a new last axis."""
    height, width = (x.shape[1] - 3) // 2 + 1, (x.shape[2] - 2) // 2 + 1
    parts = [x[:, i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2] for i in range(3) for j in range(2)]
    return jnp.stack(parts, -1)


def attention(query, key, value, mask=None, is_causal=False, scale=None):
    group = query.shape[2] // key.shape[2]
    key, value = jnp.repeat(key, group, 2), jnp.repeat(value, group, 2)
    scores = jnp.einsum("bthd,bshd->bhts", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    queries, keys = scores.shape[2:]
    may = jnp.ones((1, 1, queries, keys), bool) if mask is None else mask
    if is_causal:
        may = may & jnp.tril(jnp.ones((queries, keys), bool), keys - queries)
    weights = jnp.where(may, jax.nn.softmax(jnp.where(may, scores, -1e30)), 0)  # 0 for a query without keys
    return jnp.einsum("bhts,bshd->bthd", weights, value)


def attention_with_lengths(query, key, value, lengths):
    return attention(query, key, value, jnp.arange(key.shape[1]) < lengths[:, None, None, None])


def rotary(x, positions, base=10_000):
    half = x.shape[-1] // 2
    angle = positions[:, None, None] * base ** (-jnp.arange(half) / half)
    turned = lax.complex(x[..., :half], x[..., half:]) * jnp.exp(1j * angle)
    return jnp.concatenate([turned.real, turned.imag], -1)


def scatter_add(x, indices, updates):
    return x.at[indices].add(updates)


EINSUMS = ["bthd,bshd->bhts", "ij,jk,kl->il", "...ij,...kj->...ik", "bi,bi->b", "i,j->ij", "abc,dc->bd"]

FUNCTIONS = {
    "dense of a vector": lambda x, w, b: x @ w + b,
    "dense of rows, gelu": lambda x, w, b: jax.nn.gelu(x @ w + b),
    "dense of sequences": lambda x, w: x @ w,
    "matmul": jnp.matmul,
    "matmul of a vector": jnp.matmul,
    "matmul, batched": jnp.matmul,
    "matmul, broadcast": jnp.matmul,
    "matmul, transposed": lambda a, b: jnp.swapaxes(a, 1, 2) @ b.T,
    **{f"einsum {each}": functools.partial(jnp.einsum, each) for each in EINSUMS},
    "conv2d, valid": conv(),
    "conv2d, strided": conv(stride=(2, 3), padding=((1, 0), (0, 2))),
    "conv2d, same padding": conv(stride=(2, 2), padding="SAME"),
    "conv2d, groups": conv(padding=((1, 1), (1, 1)), groups=2),
    "conv2d, depthwise": conv(groups=3),
    "conv2d, dilated": conv(dilation=(2, 3)),
    "conv2d_transpose, strided": conv_transpose((2, 6, 7, 2), stride=(2, 2), padding=((1, 1), (1, 1))),
    "conv2d_transpose, groups": conv_transpose((1, 5, 5, 6), groups=2),
    "conv1d": conv1d,
    "avg_pool": lambda x: windows(x).mean(-1),
    "max_pool": lambda x: windows(x).max(-1),
    "gelu": jax.nn.gelu,
    "gelu_erf": lambda x: x * (1 + lax.erf(x / 2**0.5)) / 2,  # jax.nn.gelu uses erfc, which rounds differently
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "erf": lax.erf,
    "expm1": jnp.expm1,
    "sin times cos": lambda x: jnp.sin(x) * jnp.cos(x),
    "divide": jnp.divide,
    "power": jnp.power,
    "xlogy": lambda a, b: jax.scipy.special.xlogy(a, b),
    "maximum": jnp.maximum,
    "clamp": lambda x: jnp.clip(x, -1.5, 2.5),
    "where": lambda condition, a, b: jnp.where(condition, a, b),
    "softmax": jax.nn.softmax,
    "softmax over two axes": lambda x: jax.nn.softmax(x, (0, 2)),
    "log_softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1, keepdims=True),
    "sum": lambda x: x.sum((0, 1)),
    "mean": lambda x: x.mean(-1, keepdims=True),
    "variance": lambda x: x.var((0, 2)),
    "product": lambda x: x.prod(1, keepdims=True),
    "max": lambda x: x.max(0, keepdims=True),
    "argmin": lambda x: x.argmin(1),
    "cumulative_sum": lambda x: jnp.cumsum(x, 1),
    "cumulative_max": lambda x: jax.lax.cummax(x, 1),
    "cumulative_product": lambda x: jnp.cumprod(x, -1),
    "sort": lambda x: jnp.sort(x, 1),
    "argsort": jnp.argsort,
    "top_k": lambda x: lax.top_k(x, 3),
    "take": lambda x, indices: jnp.take(x, indices, 1),
    "embedding": lambda ids, table: table[ids],
    "take_along_axis": lambda x, indices: jnp.take_along_axis(x, indices, 1),
    "scatter_add": scatter_add,
    "one_hot": lambda indices: jax.nn.one_hot(indices, 7),
    "concatenate": lambda a, b, c: jnp.concatenate([a, b, c], 1),
    "split": lambda x: jnp.split(x, [2, 6], 1),
    "stack": lambda a, b: jnp.stack([a, b], 1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (2, 1)), constant_values=-3),
    "slice": lambda x: x[:, 1:8:3],
    "transpose": lambda x: x.transpose(2, 0, 1),
    "flip": lambda x: jnp.flip(x, (0, 2)),
    "broadcast_to": lambda x: jnp.broadcast_to(x, (2, 3, 5)),
    "attention, plain": attention,
    "attention, causal, scaled": functools.partial(attention, is_causal=True, scale=0.25),
    "attention, masked": attention,
    "attention, grouped queries": attention,
    "attention, lengths": attention_with_lengths,
    "rotary_embedding": rotary,
}
