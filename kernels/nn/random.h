#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// The source of random numbers: an integer or an i64 scalar on a device. A layer gets one from Scope::key, which
// differs from step to step and from layer to layer.
struct Key {
  template <class T>
    requires(std::convertible_to<T, Operand> && !std::same_as<std::remove_cvref_t<T>, Operand>)
  Key(T&& value, Where where = Where::current()) : base(std::forward<T>(value), where) {}
  Key(Operand value) : base(std::move(value)) {}

  Operand base;
  std::int64_t node = 0;  // added to the base
  // The row of the whole array at which the drawn array begins. With it, each rank in data-parallel training draws its
  // rows of the numbers that a single rank would draw.
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  // how many rows the drawn array has; 0: the size of its first axis
};

// What random_uniform and random_normal of a number would return.
template <class T>
struct NumberAsKey : Var {
  static_assert(!std::integral<T>,
                "giro: random_uniform and random_normal cannot take a number as the key, which is on no device and is "
                "the same in each step: pass s.key(\"noise\") of a scope, or nn::fold_in(number, "
                "nn::Var(state.at(\"step\"), state.stream()))");
};

// Random numbers from a key. A number depends only on its key and its element's index in row-major order. It does not
// depend on the device, the threads or fusion, except for normal numbers, which use the device's logarithm and cosine.
// The generator is Philox (runtime/rng.h). Use each key for one array: another array with the same key starts with the
// same numbers, even with another distribution. Errors: dtype_mismatch and shape_mismatch for a key that is not an i64
// scalar; invalid_argument for a key that is not an integer, for parameters that define no distribution, and if no
// argument is on a stream. A key that is a number is not, so random_uniform and random_normal of one do not compile.

// A new key, from a key and an integer. The integer is a scalar, or a number if the key is on a device. Different
// integers give keys that are unrelated to each other and to the numbers drawn from the original key.
Key fold_in(const Key& key, const Operand& data);

// In [low, high), f32. In [0, 1) the numbers are multiples of 2^-24: element i is Rng{key,
// RngPurpose::draw}.uniform(i).
Var random_uniform(const Key& key, const Shape& shape, double low = 0, double high = 1);
// f32, within 6.7 standard deviations.
Var random_normal(const Key& key, const Shape& shape, double mean = 0, double stddev = 1);
template <std::integral T>
NumberAsKey<T> random_uniform(T, const Shape&, double = 0, double = 1);
template <std::integral T>
NumberAsKey<T> random_normal(T, const Shape&, double = 0, double = 1);
// True where random_uniform with that key is below p, which broadcasts to the shape; boolean.
Var random_bernoulli(const Key& key, const Operand& p, const Shape& shape);

// Sets a fraction `rate`, in [0, 1), of the elements to 0 and multiplies the others by 1 / (1 - rate). The kept
// elements are those where random_bernoulli(key, 1 - rate, x.shape()) is true. The backward pass draws them again, so
// no mask is stored. Errors: dtype_mismatch for an x that is not floating.
Var dropout(const Operand& x, double rate, const Key& key);

}  // namespace giro::nn
