#include "callbacks/finite_leaves.h"

#include <algorithm>
#include <cstdint>

#include <giro/runtime/tensor.h>

namespace giro::detail {
namespace {

template <class Bits>
bool has_no(const Tensor& tensor, Bits exponent) {
  const auto* bits = static_cast<const Bits*>(tensor.raw());
  Bits found = 0;  // not a bool: the compiler would not vectorize the loop
  for (std::int64_t i = 0; i < tensor.count(); ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
  return found == 0;
}

// Of a tensor in host memory: NaN and infinity have all bits of the exponent.
bool is_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return has_no<std::uint32_t>(tensor, 0x7F800000);
    case DType::f64:
      return has_no<std::uint64_t>(tensor, 0x7FF0000000000000);
    case DType::f16:
      return has_no<std::uint16_t>(tensor, 0x7C00);
    case DType::bf16:
      return has_no<std::uint16_t>(tensor, 0x7F80);
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      break;
  }
  return true;
}

}  // namespace

std::string find_not_finite(const std::vector<Leaf>& leaves) {
  const auto found = std::ranges::find_if(leaves, [](const Leaf& leaf) { return !is_finite(leaf.value); });
  return found == leaves.end() ? "" : found->path;
}

}  // namespace giro::detail
