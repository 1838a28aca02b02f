#pragma once

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Random numbers by a key: an integer, or an i64 scalar, which a step takes from its state, say from its counter by
// fold_in. A number depends on its key and on its element's place in row-major order alone: not on the device, on
// threads, or on what it is fused with (but for normal ones, whose logarithm and cosine are the device's own). They are
// Philox's (runtime/rng.h). One key is for one array: another of the same key begins with the same numbers, also of
// another distribution.
// Errors: dtype_mismatch and shape_mismatch for a key that is no i64 scalar; invalid_argument for a key that is no
// integer, for parameters that make no distribution, and where no argument lies on a stream.

// Another key, from a key and an integer: a scalar, or a number beside a key on a device. Different ones give keys that
// have nothing to do with each other, nor with the numbers of the key itself.
Var fold_in(const Operand& key, const Operand& data);

// In [low, high), f32; of [0, 1) multiples of 2^-24: element i is Rng{key, RngPurpose::draw}.uniform(i).
Var random_uniform(const Operand& key, const Shape& shape, double low = 0, double high = 1);
// f32, within 6.7 standard deviations.
Var random_normal(const Operand& key, const Shape& shape, double mean = 0, double stddev = 1);
// True where random_uniform of the key is below p, which broadcasts to the shape; boolean.
Var random_bernoulli(const Operand& key, const Operand& p, const Shape& shape);

// 0 for a share `rate` of the elements, in [0, 1), and 1 / (1 - rate) times the others: those where
// random_bernoulli(key, 1 - rate, x.shape()) holds. Which those are the gradient draws again, so it is not stored.
// Errors: dtype_mismatch for an x that is not floating.
Var dropout(const Operand& x, double rate, const Operand& key);

}  // namespace giro::nn
