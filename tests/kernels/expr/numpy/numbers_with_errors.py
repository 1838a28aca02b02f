"""Arrays of doubles that model giro's results, with error bounds.

A Number has the values of exact arithmetic, and for each a bound on giro's error: the propagated errors of the operands
plus the roundings of the function itself. An element is unknown, and so is everything computed from it, if a function
is discontinuous and the errors do not tell which side giro is on, or if it may overflow.
"""

import math

import numpy as np

np.seterr(all="ignore")

# For each floating dtype: half the distance from 1 to the next number, the least number above 0, the largest number.
FORMATS = {
    "f64": (2.0**-53, 2.0**-1074, float(np.finfo(np.float64).max)),
    "f32": (2.0**-24, 2.0**-149, float(np.finfo(np.float32).max)),
    "bf16": (2.0**-8, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
    "f16": (2.0**-11, 2.0**-24, 65504.0),
}
# The least number that arithmetic on the CPU does not flush to 0 (kernels/cpu/subnormals.h). Exact functions keep less.
NORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126}
INTEGERS = {"i32": 2.0**31, "i64": 2.0**53, "u8": 256.0}
WIDTHS = ["bool", "u8", "i32", "i64", "bf16", "f16", "f32", "f64"]
MOST_ADDITIONS = 40  # in sequence for one element, in a sum of any length
ERF = np.vectorize(math.erf, otypes=[float])


def promoted(a, b):
    if a != b and {a, b} <= {"bf16", "f16"}:
        return "f32"
    return max(a, b, key=WIDTHS.index)


def computed_in(dtype):
    return "f32" if dtype in ("bf16", "f16") else dtype


def is_of(dtype, value):
    """Whether the dtype represents the value exactly. Unknown for f64, because the value itself was rounded."""
    if dtype == "f64":
        return False
    if dtype == "bf16":
        fraction, exponent = np.frexp(value)
        return np.ldexp(np.rint(np.ldexp(fraction, 8)), exponent - 8) == value
    return value.astype({"f16": np.float16, "f32": np.float32}[dtype]) == value


class Number:
    def __init__(self, dtype, value, error=0.0, known=True):
        self.dtype = dtype
        self.value = np.asarray(value, float)
        self.known = np.broadcast_to(known, self.value.shape) & np.isfinite(self.value) & np.isfinite(error)
        self.error = np.where(self.known, error, 0.0)

    @property
    def shape(self):
        return self.value.shape

    def moved(self, function):
        """The same elements in other places."""
        return Number(self.dtype, function(self.value), function(self.error), function(self.known))

    def rounded(self, dtype, roundings=1):
        """The value after `roundings` roundings in the dtype it is computed in, and a last one to a 16-bit dtype."""
        value, error, known = self.value, self.error, self.known
        for each, times in ((computed_in(dtype), roundings), (dtype, dtype != computed_in(dtype))):
            if not times or each not in FORMATS:
                continue
            unit, least, largest = FORMATS[each]
            if each == "f64":
                times *= 2  # the reference itself rounds as often
            kept = (error == 0) & is_of(each, value) if times == 1 else False  # nothing to round
            most = np.abs(value) + error
            normal = NORMAL.get(each, 0)
            flushed = np.where(np.abs(value) - error < normal, np.minimum(most, normal), 0)
            error = np.where(kept, 0, error + times * (unit * most * (1 + 2.0**-6) + least + flushed))
            known = known & (np.abs(value) + error < largest)
        return Number(dtype, value, error, known)


def constant(dtype, value, shape=()):
    return Number(dtype, np.full(shape, float(value))).rounded(dtype, 0 if value == int(value) else 1)


def both(a, b):
    return a.known & b.known


def add(a, b, sign=1):
    value = a.value + sign * b.value
    # giro rounds the sum of its inexact operands, not of the exact values.
    result = Number(a.dtype, value, a.error + b.error, both(a, b))
    return result.rounded(a.dtype)


def multiply(a, b):
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return Number(a.dtype, a.value * b.value, error, both(a, b)).rounded(a.dtype)


def divide(a, b):
    value, least = a.value / b.value, np.abs(b.value) - b.error
    error = (a.error + np.abs(value) * b.error) / least
    return Number(a.dtype, value, error, both(a, b) & (least > 0)).rounded(a.dtype)


def monotone(function, a, ulps, low=-np.inf):
    """Applies a function that is monotone above `low`, with an error of `ulps` units in the last place."""
    value = function(a.value)
    error = np.maximum(np.abs(function(a.value - a.error) - value), np.abs(function(a.value + a.error) - value))
    # The differences above are also rounded, in double.
    error = np.where(a.error > 0, error + 2.0**-51 * np.abs(value), error)
    return Number(a.dtype, value, error, a.known & (a.value - a.error > low)).rounded(a.dtype, 2 * ulps)


def exp(a):
    return monotone(np.exp, a, 2)


def log(a):
    return monotone(np.log, a, 2, 0)


def log1p(a):
    return monotone(np.log1p, a, 2, -1)


def tanh(a):
    return monotone(np.tanh, a, 2)


def erf(a):
    return monotone(ERF, a, 2)


def sqrt(a):
    return monotone(np.sqrt, a, 0.5, 0)


def sine(function, slope):
    def apply(a):
        error = np.minimum(2, np.abs(slope(a.value)) * a.error + a.error**2 / 2)
        # Larger arguments are reduced in another way.
        return Number(a.dtype, function(a.value), error, a.known & (np.abs(a.value) < 1e5)).rounded(a.dtype, 4)

    return apply


sin, cos = sine(np.sin, np.cos), sine(np.cos, np.sin)


def negate(a):
    return Number(a.dtype, -a.value, a.error, a.known)


def absolute(a):
    return Number(a.dtype, np.abs(a.value), a.error, a.known)


def is_apart(a, b):
    """Whether the errors cannot change the order of the two, or both are exact."""
    return (np.abs(a.value - b.value) > a.error + b.error) | ((a.error == 0) & (b.error == 0))


def sign(a):
    return Number(a.dtype, np.sign(a.value), 0, a.known & is_apart(a, constant(a.dtype, 0)))


def less(a, b):
    return Number("bool", a.value < b.value, 0, both(a, b) & is_apart(a, b))


def where(condition, a, b):
    chosen = condition.value != 0
    shape = np.broadcast_shapes(chosen.shape, a.shape, b.shape)
    pick = lambda x, y: np.where(chosen, np.broadcast_to(x, shape), np.broadcast_to(y, shape))
    return Number(a.dtype, pick(a.value, b.value), pick(a.error, b.error), condition.known & pick(a.known, b.known))


def larger(a, b, largest=True):
    function = np.maximum if largest else np.minimum
    ends = [function(a.value + i * a.error, b.value + i * b.error) for i in (-1, 1)]
    value = function(a.value, b.value)
    return Number(a.dtype, value, np.maximum(ends[1] - value, value - ends[0]), both(a, b))


def share_of(a, y, other):
    chosen = np.where(a.value == y.value, np.where(a.value == other.value, 0.5, 1.0), 0.0)
    return Number(a.dtype, chosen, 0, both(a, other) & is_apart(a, other))


def cast(a, dtype):
    if a.dtype == dtype:
        return a
    if dtype in FORMATS:
        wider = a.dtype not in FORMATS or FORMATS[a.dtype][0] >= FORMATS[dtype][0]
        exact = wider and {a.dtype, dtype} != {"bf16", "f16"} and a.dtype not in INTEGERS
        return Number(dtype, a.value, a.error, a.known).rounded(dtype, 0 if exact else 1)
    value = np.trunc(a.value)
    same = (np.trunc(a.value - a.error) == value) & (np.trunc(a.value + a.error) == value)
    return Number(dtype, value, 0, a.known & same & (np.abs(value) < INTEGERS[dtype]))


def total(a, axes, dtype):
    count = math.prod(a.shape[k] for k in axes)
    error = a.error.sum(axes, keepdims=True)
    magnitude = np.abs(a.value).sum(axes, keepdims=True) + error
    steps = min(count, MOST_ADDITIONS) if dtype in FORMATS and count > 1 else 0
    unit = FORMATS[computed_in(dtype)][0] if steps else 0
    error = error + 1.01 * steps * unit * magnitude + (2.0**-52 * count * magnitude if steps else 0)
    error = error + steps * np.minimum(magnitude, NORMAL.get(computed_in(dtype), 0))
    known = a.known.all(axes, keepdims=True) & (magnitude < FORMATS.get(dtype, (0, 0, np.inf))[2])
    return Number(dtype, a.value.sum(axes, keepdims=True), error, known)


def product(a, axes, dtype):
    value = a.value.prod(axes, keepdims=True)
    most = (np.abs(a.value) + a.error).prod(axes, keepdims=True)
    count = math.prod(a.shape[k] for k in axes)
    unit = FORMATS[computed_in(dtype)][0]
    # Each step may underflow and lose up to the least normal number, which factors of at most 1 do not amplify.
    error = most - np.abs(value) + 1.01 * count * unit * most + 2.0**-52 * count * most
    error = error + count * NORMAL[computed_in(dtype)]
    steady = (np.abs(a.value) + a.error <= 1).all(axes, keepdims=True) | (count == 1)
    return Number(dtype, value, error, a.known.all(axes, keepdims=True) & steady)


def extreme(a, axes, largest):
    function = np.max if largest else np.min
    value = function(a.value, axis=axes, keepdims=True)
    ends = [function(a.value + i * a.error, axis=axes, keepdims=True) for i in (-1, 1)]
    return Number(a.dtype, value, np.maximum(ends[1] - value, value - ends[0]), a.known.all(axes, keepdims=True))


def chosen(a, axes, largest):
    """1 for each element that is the largest of its row, as f32."""
    top = extreme(a, axes, largest)
    is_top = a.value == top.value
    direction = 1 if largest else -1
    # All others must be below the lower bound of the largest; if several are equal, they must be exact.
    least = np.where(is_top, direction * a.value - a.error, np.inf).min(axes, keepdims=True)
    below = (direction * a.value + a.error < least) | is_top
    several = is_top.sum(axes, keepdims=True) > 1
    exact = ~is_top | (a.error == 0)
    sure = below.all(axes, keepdims=True) & (~several | exact.all(axes, keepdims=True)) & top.known
    return Number("f32", is_top, 0, np.broadcast_to(sure, a.shape))


def place_of_largest(a, axes):
    (axis,) = axes if len(axes) == 1 else (None,)
    moved = np.moveaxis(a.value, sorted(axes), range(-len(axes), 0))
    flat = moved.reshape(moved.shape[: moved.ndim - len(axes)] + (-1,))
    shape = tuple(1 if k in axes else n for k, n in enumerate(a.shape))
    sure = chosen(a, axes, True).known.all(axes, keepdims=True)
    return Number("i64", flat.argmax(-1).reshape(shape), 0, sure)
