#include "kernels/functors/elementwise.h"

#include "kernels/cpu/for_each.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {

void add(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  functors::add(ForEach{stream}, out, a, b);
}

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Stream& stream) {
  functors::multiply(ForEach{stream}, out, a, b);
}

void scale(const Tensor& out, const Tensor& a, double factor, const Stream& stream) {
  functors::scale(ForEach{stream}, out, a, factor);
}

void cast(const Tensor& out, const Tensor& a, const Stream& stream) { functors::cast(ForEach{stream}, out, a); }

void fill(const Tensor& out, double value, const Stream& stream) { functors::fill(ForEach{stream}, out, value); }

void scale_rows(const Tensor& out, const Tensor& a, const Tensor& factors, const Stream& stream) {
  functors::scale_rows(ForEach{stream}, out, a, factors);
}

void broadcast(const Tensor& out, const Tensor& scalar, double factor, const Stream& stream) {
  functors::broadcast(ForEach{stream}, out, scalar, factor);
}

void increment(const Tensor& counter, std::int64_t amount, const Stream& stream) {
  functors::increment(ForEach{stream}, counter, amount);
}

}  // namespace giro::cpu
