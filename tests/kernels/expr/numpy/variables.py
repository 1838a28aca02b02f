"""Giro's functions of Vars and their gradients, on numbers with errors: the same formulas and dtypes."""

import math

import numpy as np

import numbers_with_errors as n


def operators(function):
    """The operator of a function, and the same with its operands in the other order."""
    return (lambda self, other: binary(function, self, other)), (lambda self, other: binary(function, other, self))


class Var:
    def __init__(self, number, inputs=(), gradient=None):
        self.number = number
        self.wants = any(each.wants for each in inputs) and gradient is not None
        self.inputs = inputs if self.wants else ()
        self.gradient = gradient

    dtype = property(lambda self: self.number.dtype)
    shape = property(lambda self: self.number.shape)

    __add__, __radd__ = operators("add")
    __sub__, __rsub__ = operators("subtract")
    __mul__, __rmul__ = operators("multiply")
    __truediv__, __rtruediv__ = operators("divide")

    def __neg__(self):
        return FUNCTIONS["negate"](self)


def parameter(number):
    var = Var(number)
    var.wants = True
    return var


def filled(dtype, shape, value):
    return Var(n.constant(dtype, value, shape))


def cast(x, dtype):
    if x.dtype == dtype:
        return x
    differs = x.dtype in n.FORMATS and dtype in n.FORMATS
    return Var(n.cast(x.number, dtype), (x,), (lambda y, dy: [cast(dy, x.dtype)]) if differs else None)


def sum_to(x, shape):
    if x.shape == shape:
        return x
    more = len(x.shape) - len(shape)
    axes = [k for k, size in enumerate(x.shape) if k < more or (shape[k - more] == 1 and size != 1)]
    return reshape(total(x, axes), shape)


def reshape(x, shape):
    return Var(x.number.moved(lambda a: a.reshape(shape)), (x,), lambda y, dy: [reshape(dy, x.shape)])


def broadcast_to(x, shape):
    if x.shape == tuple(shape):
        return x
    return Var(x.number.moved(lambda a: np.broadcast_to(a, shape)), (x,), lambda y, dy: [sum_to(dy, x.shape)])


def spread(x, shape, axes):
    return broadcast_to(reshape(x, tuple(1 if k in axes else size for k, size in enumerate(shape))), shape)


def unary(function, gradient):
    """A function with intermediate results rounded in the dtype it is computed in, and the result to its own dtype."""

    def apply(a):
        number = function(n.Number(n.computed_in(a.dtype), a.number.value, a.number.error, a.number.known))
        number = n.cast(number, a.dtype)
        return Var(number, (a,), lambda y, dy: [gradient(a, y, dy)])

    return apply


def sigmoid_of(a):
    return n.divide(one(a), n.add(one(a), n.exp(n.negate(a))))


def one(a, value=1):
    return n.constant(a.dtype, value)


def scaled(factor, a):
    return n.multiply(one(a, factor), a)


def silu_slope_of(a):
    s = sigmoid_of(a)
    bracket = n.add(one(a), n.multiply(a, n.add(one(a), s, -1)))
    return n.divide(bracket, n.add(one(a), n.exp(n.negate(a))))


def tanh_of_gelu(a):
    cube = n.multiply(n.multiply(scaled(0.044715, a), a), a)
    return n.tanh(scaled(0.7978845608028654, n.add(a, cube)))


def gelu_slope_of(a):
    t = tanh_of_gelu(a)
    inner = scaled(0.7978845608028654, n.add(one(a), n.multiply(scaled(0.134145, a), a)))
    rest = n.multiply(n.multiply(scaled(0.5, a), n.add(one(a), n.multiply(t, t), -1)), inner)
    return n.add(scaled(0.5, n.add(one(a), t)), rest)


def relu_of(a):
    return n.larger(a, n.constant(a.dtype, 0))


def softplus_of(a):
    return n.add(relu_of(a), n.log1p(n.exp(n.negate(n.absolute(a)))))


def curvature_of_gelu(a):
    k, b = 0.7978845608028654, 0.044715
    squared = square(a)
    t = tanh(k * a * (1 + b * squared))
    inner = k * (1 + 3 * b * squared)
    return (1 - square(t)) * (inner + 0.5 * a * (6 * k * b * a - 2 * t * square(inner)))


FUNCTIONS = {
    "negate": unary(n.negate, lambda a, y, dy: -dy),
    "abs": unary(n.absolute, lambda a, y, dy: dy * sign(a)),
    "sign": lambda a: Var(n.sign(a.number)),
    "square": unary(lambda a: n.multiply(a, a), lambda a, y, dy: dy * 2 * a),
    "sqrt": unary(n.sqrt, lambda a, y, dy: dy / (2 * y)),
    "rsqrt": unary(lambda a: n.divide(one(a), n.sqrt(a)), lambda a, y, dy: dy * -0.5 * y / a),
    "exp": unary(n.exp, lambda a, y, dy: dy * y),
    "log": unary(n.log, lambda a, y, dy: dy / a),
    "log1p": unary(n.log1p, lambda a, y, dy: dy / (1 + a)),
    "sin": unary(n.sin, lambda a, y, dy: dy * cos(a)),
    "cos": unary(n.cos, lambda a, y, dy: -dy * sin(a)),
    "tanh": unary(n.tanh, lambda a, y, dy: dy * tanh_slope(y)),
    "tanh_slope": unary(lambda a: n.add(one(a), n.multiply(a, a), -1), lambda a, y, dy: dy * -2 * a),
    "sigmoid": unary(sigmoid_of, lambda a, y, dy: dy * sigmoid_slope(y)),
    "sigmoid_slope": unary(lambda a: n.multiply(a, n.add(one(a), a, -1)), lambda a, y, dy: dy * (1 - 2 * a)),
    "erf": unary(n.erf, lambda a, y, dy: dy * 1.1283791670955126 * exp(-square(a))),
    "relu": unary(relu_of, lambda a, y, dy: where(less(filled(y.dtype, (), 0), y), dy, filled(dy.dtype, (), 0))),
    "softplus": unary(softplus_of, lambda a, y, dy: dy * sigmoid(a)),
    "silu": unary(lambda a: n.divide(a, n.add(one(a), n.exp(n.negate(a)))), lambda a, y, dy: dy * silu_slope(a)),
    "silu_slope": unary(
        silu_slope_of, lambda a, y, dy: dy * sigmoid_slope(sigmoid(a)) * (2 + a * (1 - 2 * sigmoid(a)))
    ),
    "gelu": unary(
        lambda a: n.multiply(scaled(0.5, a), n.add(one(a), tanh_of_gelu(a))), lambda a, y, dy: dy * gelu_slope(a)
    ),
    "gelu_slope": unary(gelu_slope_of, lambda a, y, dy: dy * curvature_of_gelu(a)),
}
square, sqrt, exp, log, sin, cos, tanh, sigmoid = (
    FUNCTIONS[name] for name in ("square", "sqrt", "exp", "log", "sin", "cos", "tanh", "sigmoid")
)
sign, tanh_slope, sigmoid_slope, silu_slope, gelu_slope = (
    FUNCTIONS[name] for name in ("sign", "tanh_slope", "sigmoid_slope", "silu_slope", "gelu_slope")
)


def widened(a, b):
    """Both in their common dtype; a plain number takes the dtype of the Var."""
    if not isinstance(a, Var):
        return filled(b.dtype, (), a), b
    if not isinstance(b, Var):
        return a, filled(a.dtype, (), b)
    dtype = n.promoted(a.dtype, b.dtype)
    return cast_of_operand(a, dtype), cast_of_operand(b, dtype)


def cast_of_operand(x, dtype):
    """A cast within an op: the gradient is rounded to x's dtype only where gradients are added."""
    if x.dtype == dtype:
        return x
    return Var(n.cast(x.number, dtype), (x,), lambda y, dy: [dy])


def extremum(largest):
    def gradient(a, b, y, dy):
        return [dy * share(a, y, b), dy * share(b, y, a)]

    return lambda a, b: n.larger(a, b, largest), gradient


def share(a, y, other):
    shape = np.broadcast_shapes(a.shape, other.shape)
    wide = [x.number.moved(lambda each: np.broadcast_to(each, shape)) for x in (a, y, other)]
    return Var(n.share_of(*wide))


BINARIES = {
    "add": (n.add, lambda a, b, y, dy: [dy, dy]),
    "subtract": (lambda a, b: n.add(a, b, -1), lambda a, b, y, dy: [dy, -dy]),
    "multiply": (n.multiply, lambda a, b, y, dy: [dy * b, dy * a]),
    "divide": (n.divide, lambda a, b, y, dy: [dy / b, -dy * y / b]),
    "maximum": extremum(True),
    "minimum": extremum(False),
}


def binary(op, a, b):
    function, gradient = BINARIES[op]
    given = a, b
    a, b = widened(a, b)
    result = function(in_wide(a.number), in_wide(b.number))
    inputs = tuple(each for each in given if isinstance(each, Var))

    def of_inputs(y, dy):
        first = given[0] if isinstance(given[0], Var) else a
        second = given[1] if isinstance(given[1], Var) else b
        terms = gradient(first, second, y, dy)
        return [sum_to(term, each.shape) for term, each in zip(terms, given) if isinstance(each, Var)]

    return Var(n.cast(result, a.dtype), inputs, of_inputs)


def in_wide(number):
    return n.Number(n.computed_in(number.dtype), number.value, number.error, number.known)


def less(a, b):
    a, b = widened(a, b)
    return Var(n.less(a.number, b.number))


def where(condition, a, b):
    given = a, b
    dtype = n.promoted(a.dtype, b.dtype)
    number = n.where(condition.number, n.cast(a.number, dtype), n.cast(b.number, dtype))

    def gradient(y, dy):
        zero = filled(dy.dtype, (), 0)
        terms = [where(condition, dy, zero), where(condition, zero, dy)]
        return [sum_to(term, each.shape) for term, each in zip(terms, given)]

    return Var(number, given, gradient)


def of_sum(dtype):
    return "f32" if dtype in ("bf16", "f16") else dtype


def total(x, axes):
    axes = tuple(axes)
    number = n.total(x.number, axes, of_sum(x.dtype))
    return Var(number, (x,), lambda y, dy: [spread(dy, x.shape, axes)])


def mean(x, axes):
    return total(x, axes) / math.prod(x.shape[k] for k in axes)


def extreme(x, axes, largest):
    axes = tuple(axes)

    def gradient(y, dy):
        chosen = Var(n.chosen(x.number, axes, largest))
        return [spread(dy / total(chosen, axes), x.shape, axes) * chosen]

    return Var(n.extreme(x.number, axes, largest), (x,), gradient)


def product(x, axes):
    """For nonzero numbers."""
    axes = tuple(axes)

    def gradient(y, dy):
        others = product(x, axes)
        return [spread(dy, x.shape, axes) * (spread(others, x.shape, axes) / x)]

    return Var(n.product(x.number, axes, of_sum(x.dtype)), (x,), gradient)


def logsumexp(x, axes):
    floats = cast(x, of_sum(x.dtype))
    shift = Var(n.extreme(floats.number, tuple(axes), True))
    return log(total(exp(floats - spread(shift, x.shape, axes)), axes)) + shift


def variance(x, axes):
    return mean(square(x - spread(mean(x, axes), x.shape, axes)), axes)


def moved(x, function, back):
    return Var(x.number.moved(function), (x,), lambda y, dy: [moved(dy, back, function)])


def sum_of_all(values):
    result = None
    for value in values:
        if value.wants:
            part = cast(reshape(total(cast(value, of_sum(value.dtype)), range(len(value.shape))), ()), "f32")
            result = part if result is None else result + part
    return result


def gradients(y, xs):
    """The gradients of y with respect to each of xs, which can be differentiated again."""
    order, seen, stack = [], {id(y)}, [(y, 0)]
    while stack:
        var, k = stack.pop()
        if k == len(var.inputs):
            order.append(var)
            continue
        stack.append((var, k + 1))
        if var.inputs[k].wants and id(var.inputs[k]) not in seen:
            seen.add(id(var.inputs[k]))
            stack.append((var.inputs[k], 0))
    found = {id(y): filled("f32", (), 1)}
    for var in reversed(order):
        if id(var) not in found or not var.inputs:
            continue
        for x, term in zip(var.inputs, var.gradient(var, found[id(var)])):
            if x.wants:
                term = cast(term, x.dtype)
                found[id(x)] = found[id(x)] + term if id(x) in found else term
    return [found.get(id(x), filled(x.dtype, x.shape, 0)) for x in xs]


OPS = {
    **{name: (lambda function: lambda a: function(a))(function) for name, function in FUNCTIONS.items()},
    **{name: (lambda op: lambda a, b: binary(op, a, b))(name) for name in BINARIES},
    "add_number": lambda a, number: a + number,
    "multiply_number": lambda a, number: a * number,
    "cast": cast,
    "less": less,
    "where": where,
    "sum": total,
    "mean": mean,
    "max": lambda a, axes: extreme(a, axes, True),
    "min": lambda a, axes: extreme(a, axes, False),
    "argmax": lambda a, axes: Var(n.place_of_largest(a.number, tuple(axes))),
    "product": product,
    "logsumexp": logsumexp,
    "variance": variance,
    "broadcast_to": lambda a, shape: broadcast_to(a, tuple(shape)),
    "reshape": lambda a, shape: reshape(a, tuple(shape)),
    "flip": lambda a, axes: moved(a, lambda x: np.flip(x, axes), lambda x: np.flip(x, axes)),
    "transpose": lambda a: moved(a, np.transpose, np.transpose),
}
