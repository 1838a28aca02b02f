#pragma once

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Random numbers from a key: an integer or an i64 scalar. A step takes the key from its state, for example from its
// counter with fold_in. A number depends only on its key and its element's index in row-major order. It does not depend
// on the device, the threads or fusion, except for normal numbers, which use the device's logarithm and cosine. The
// generator is Philox (runtime/rng.h). Use each key for one array: another array with the same key starts with the same
// numbers, also with another distribution.
// Errors: dtype_mismatch and shape_mismatch for a key that is not an i64 scalar; invalid_argument for a key that is not
// an integer, for parameters that define no distribution, and if no argument is on a stream.

// A new key, from a key and an integer. The integer is a scalar, or a number if the key is on a device. Different
// integers give keys that are unrelated to each other and to the numbers of the key itself.
Var fold_in(const Operand& key, const Operand& data);

// In [low, high), f32. In [0, 1) the numbers are multiples of 2^-24: element i is Rng{key,
// RngPurpose::draw}.uniform(i).
Var random_uniform(const Operand& key, const Shape& shape, double low = 0, double high = 1);
// f32, within 6.7 standard deviations.
Var random_normal(const Operand& key, const Shape& shape, double mean = 0, double stddev = 1);
// True where random_uniform with that key is below p, which broadcasts to the shape; boolean.
Var random_bernoulli(const Operand& key, const Operand& p, const Shape& shape);

// Sets a fraction `rate`, in [0, 1), of the elements to 0 and multiplies the others by 1 / (1 - rate). The others are
// those where random_bernoulli(key, 1 - rate, x.shape()) is true. The gradient draws them again, so no mask is stored.
// Errors: dtype_mismatch for an x that is not floating.
Var dropout(const Operand& x, double rate, const Operand& key);

}  // namespace giro::nn
