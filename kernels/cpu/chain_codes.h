// The functions of a chain's steps (chain.h), without an include guard: the name of an f32 function
// (scalar_functions.h), and the same function of vectors a and b, with the same bits as in arithmetic.h and math.h. No
// two may share a costly subexpression: GCC would hoist it out of the switch and compute it for every step.

GIRO_UNARY(negate, -a)
GIRO_UNARY(abs, AS_FLOATS(AS_BITS(a) & 0x7fffffff))
GIRO_UNARY(square, a* a)
GIRO_UNARY(sqrt, root(a))
GIRO_UNARY(relu, a < 0.0f ? V{} : a)
GIRO_UNARY(is_nan, AS_MASK(a != a))
GIRO_TOGETHER(exp)
GIRO_TOGETHER(tanh)
GIRO_BINARY(add, a + b)
GIRO_BINARY(subtract, a - b)
GIRO_BINARY(multiply, a* b)
GIRO_BINARY(divide, a / b)
GIRO_EXTREME(maximum, >)
GIRO_EXTREME(minimum, <)
GIRO_BINARY(equal, AS_MASK(a == b))
GIRO_BINARY(not_equal, AS_MASK(a != b))
GIRO_BINARY(less, AS_MASK(a < b))
GIRO_BINARY(less_equal, AS_MASK(a <= b))
GIRO_BINARY(greater, AS_MASK(a > b))
GIRO_BINARY(greater_equal, AS_MASK(a >= b))
