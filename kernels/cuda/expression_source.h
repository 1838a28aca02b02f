#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/expr/expression.h"

namespace giro::ops {
struct Publish;
}

namespace giro::cuda {

// The kernels of an expression, in CUDA C++ for NVRTC, and how to launch them, in order. Each takes the addresses of
// element 0 of every read and every write; the workspace and the block counters (CudaStream::arrivals), if the
// workspace is not 0 bytes; and `count`. Sizes and strides are constants in the source, except the size of the
// outermost row axis. Addresses matter only by their alignment. One source thus serves every batch size.
struct ExpressionSource {
  struct Kernel {
    std::string name;
    unsigned int threads = 0, blocks = 0;
    const void* function = nullptr;  // once it is loaded
  };

  std::string text;  // a program may contain several, each once
  std::vector<Kernel> kernels;
  std::int64_t count = 0;       // of elements or rows
  bool has_wide_count = false;  // it is passed as i64 rather than as i32
  std::size_t workspace_bytes = 0;
};

// A space without rows has nothing to launch. Numbers of the expression are constants in the source. A tail
// (row_tail.h) requires an expression without reductions; its arguments come before `count`.
ExpressionSource source_of(const expr::Expression& expression, const ops::Publish* tail = nullptr);

}  // namespace giro::cuda
