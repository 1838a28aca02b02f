#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <giro/runtime/program/program.h>
#include <giro/runtime/tensor.h>

namespace giro::detail {

// Whether two tensors share memory. An empty one, i.e. an omitted argument, shares none.
inline bool overlap(const Tensor& a, const Tensor& b) {
  if (!a || !b) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.raw()), b_begin = reinterpret_cast<std::uintptr_t>(b.raw());
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

inline bool any_overlap(const std::vector<Tensor>& a, const Tensor& b) {
  return std::any_of(a.begin(), a.end(), [&](const Tensor& x) { return overlap(x, b); });
}
inline bool any_overlap(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::any_of(b.begin(), b.end(), [&](const Tensor& y) { return any_overlap(a, y); });
}

// Whether two ops must keep their order.
inline bool depend(const Program::Node& a, const Program::Node& b) {
  return any_overlap(a.writes, b.writes) || any_overlap(a.writes, b.reads) || any_overlap(a.reads, b.writes);
}

}  // namespace giro::detail
