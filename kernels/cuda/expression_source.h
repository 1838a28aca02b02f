#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/pointwise/expression.h"

namespace giro::ops {
struct Publish;
}

namespace giro::cuda {

// The kernels of an expression, in CUDA C++ for NVRTC, and how to launch them, one after the other. Arguments of each:
// where element 0 of every read and of every write lies; the workspace, if it is not 0 bytes, and counters of blocks
// (CudaStream::arrivals); and `count`. Sizes and strides are constants of the source, but for the outermost axis of the
// rows; addresses leave a trace in their alignment alone. So a source serves every batch size.
struct ExpressionSource {
  struct Kernel {
    std::string name;
    unsigned int threads = 0, blocks = 0;
  };

  std::string text;  // several may stand in one program, each once
  std::vector<Kernel> kernels;
  std::int64_t count = 0;       // of elements or rows
  bool has_wide_count = false;  // it is passed as i64 rather than as i32
  std::size_t workspace_bytes = 0;
};

// Nothing to launch for a space without rows. Numbers are constants of the source, too. A tail (row_tail.h), whose
// arguments stand before `count`, is for an expression that reduces nothing.
ExpressionSource source_of(const pointwise::Expression& expression, const ops::Publish* tail = nullptr);

}  // namespace giro::cuda
