#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/pointwise/build.h"

namespace giro::pointwise {

// Builds an expression that writes one whole array, from arrays that are broadcast to its space.
class Elements {
 public:
  // One axis is enough if nothing is broadcast along another.
  Elements(const char* op, const Tensor& out) : Elements(op, out, {out.count()}) {}
  Elements(const char* op, const Tensor& out, const Shape& space) : op_(op), out_(out), space_(space), code_(space) {}

  std::uint16_t read(const Tensor& array) { return read(array, space_); }
  std::uint16_t read(const Tensor& array, const Shape& as) { return code_.read(array, broadcast_layout(as, space_)); }
  std::uint16_t constant(DType dtype, double number) { return code_.constant(dtype, number); }
  std::uint16_t constant(std::int64_t number) { return code_.constant(DType::i64, 0, number); }
  std::uint16_t cast(std::uint16_t value, DType dtype) { return code_.cast(value, dtype); }
  std::uint16_t apply(const ScalarFunction& function, std::uint16_t a, std::uint16_t b) {
    return code_.apply(function, code_.dtype(a), std::array{a, b});
  }
  // Converts the value to the array's dtype. Must be the last call.
  void write(std::uint16_t value, const Stream& stream) {
    code_.write(cast(value, out_.dtype()), out_, broadcast_layout(space_, space_));
    queue(op_, std::move(code_).take(), stream);
  }

 private:
  const char* op_;
  const Tensor out_;
  const Shape space_;
  Builder code_;
};

}  // namespace giro::pointwise
