// What a chain's steps do (chain.h), without an include guard: a name, the source of the function of f32 that it is,
// and the same of vectors a and b, to the bit what arithmetic.h and math.h make of them. No two may have a costly
// part in common: GCC takes such a part out of the switch, and computes it for every step.

GIRO_UNARY(negate, "negative(a)", -a)
GIRO_UNARY(abs, "abs(a)", AS_FLOATS(AS_BITS(a) & 0x7fffffff))
GIRO_UNARY(square, "times(a, a)", a* a)
GIRO_UNARY(sqrt, "sqrt(a)", root(a))
GIRO_UNARY(relu, "a < T(0) ? T(0) : a", a < 0.0f ? V{} : a)
GIRO_UNARY(to_bf16, "bf16", to_bf16(a, AS_BITS(a)))
GIRO_UNARY(to_f16, "f16", to_f16(a, AS_BITS(a)))
GIRO_UNARY(is_nan, "a != a", AS_MASK(a != a))
GIRO_BINARY(add, "plus(a, b)", a + b)
GIRO_BINARY(subtract, "minus(a, b)", a - b)
GIRO_BINARY(multiply, "times(a, b)", a* b)
GIRO_BINARY(divide, "a / b", a / b)
GIRO_EXTREME(maximum, "maximum(a, b)", >)
GIRO_EXTREME(minimum, "minimum(a, b)", <)
GIRO_BINARY(equal, "a == b", AS_MASK(a == b))
GIRO_BINARY(not_equal, "a != b", AS_MASK(a != b))
GIRO_BINARY(less, "a < b", AS_MASK(a < b))
GIRO_BINARY(less_equal, "a <= b", AS_MASK(a <= b))
GIRO_BINARY(greater, "a > b", AS_MASK(a > b))
GIRO_BINARY(greater_equal, "a >= b", AS_MASK(a >= b))
