#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <map>

#include <giro/runtime/tensor.h>

namespace giro::detail {

// Maps blocks of memory that a program was traced with to their new addresses. Other addresses stay the same.
class MemoryMoves {
 public:
  void add(const char* from, std::size_t bytes, char* to) { blocks_[from] = {bytes, to}; }

  void* operator()(const void* address) const {
    const auto* const at = static_cast<const char*>(address);
    const auto after = blocks_.upper_bound(at);
    if (after != blocks_.begin()) {
      const auto& [from, block] = *std::prev(after);
      if (at < from + block.bytes) return block.to + (at - from);
    }
    return const_cast<char*>(at);
  }
  Tensor operator()(const Tensor& tensor) const {
    return {(*this)(tensor.raw()), tensor.dtype(), tensor.shape(), tensor.device()};
  }

 private:
  struct Block {
    std::size_t bytes;
    char* to;
  };
  std::map<const char*, Block, std::less<>> blocks_;
};

}  // namespace giro::detail
