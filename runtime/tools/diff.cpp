#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>

#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {
namespace {

std::map<std::string, Tensor> by_path(const Contents& contents) {
  std::map<std::string, Tensor> tensors;
  for (const Leaf& leaf : contents.tensors) tensors.emplace(leaf.path, leaf.value);
  return tensors;
}

// How two tensors of one dtype and shape differ; empty if they are bitwise equal.
std::string difference(const Tensor& a, const Tensor& b) {
  return with_elements(a, [&](const auto* first) {
    const auto* second = static_cast<decltype(first)>(b.raw());
    std::int64_t differing = 0;
    double largest = 0;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (std::memcmp(first + i, second + i, sizeof(*first)) == 0) continue;
      ++differing;
      const double distance = std::abs(static_cast<double>(first[i]) - static_cast<double>(second[i]));
      if (std::isnan(distance) || distance > largest) largest = distance;  // NaN stays
    }
    if (differing == 0) return std::string();
    return fmt::format("{} of {} elements differ, by at most {:.6g}", differing, a.count(), largest);
  });
}

}  // namespace

int diff(const std::string& a, const std::string& b) {
  const Contents first = load_contents(a), second = load_contents(b);
  const std::map<std::string, Tensor> left = by_path(first), right = by_path(second);
  std::size_t equal = 0;
  for (const auto& [path, tensor] : left) {
    const auto other = right.find(path);
    if (other == right.end()) {
      fmt::print("{}: {} only in {}\n", for_terminal(path), type_of(tensor), first.path);
    } else if (tensor.dtype() != other->second.dtype() || tensor.shape() != other->second.shape()) {
      fmt::print("{}: {} in {}, {} in {}\n", for_terminal(path), type_of(tensor), first.path, type_of(other->second),
                 second.path);
    } else if (const std::string found = difference(tensor, other->second); !found.empty()) {
      fmt::print("{}: {}\n", for_terminal(path), found);
    } else {
      ++equal;
    }
  }
  for (const auto& [path, tensor] : right) {
    if (!left.contains(path)) fmt::print("{}: {} only in {}\n", for_terminal(path), type_of(tensor), second.path);
  }
  fmt::print("{} tensors are bitwise equal\n", equal);
  return equal == left.size() && equal == right.size() ? kGood : kDifferentOrDamaged;
}

}  // namespace giro::tools
