#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>

#include "runtime/internal/op_scope.h"
#include "runtime/internal/recording.h"

namespace giro::detail {

// Whether what this thread queues now becomes a node of its recording's program: what an op queues itself does not.
inline bool is_noted() noexcept { return Recording::current() != nullptr && !OpScope::is_open(); }

// A node of the recording's program, if is_noted(). Arguments that are not there are left out. `bytes`, if given, are
// what it reads and writes of them, where that is not all.
inline void note_op(std::string op, std::vector<Tensor> writes, std::vector<Tensor> reads, double flops = 0,
                    std::optional<std::int64_t> bytes = {}) {
  std::erase_if(writes, [](const Tensor& tensor) { return !tensor; });
  std::erase_if(reads, [](const Tensor& tensor) { return !tensor; });
  Recording::current()->program.add(Program::Node(std::move(op), std::move(writes), std::move(reads), flops, bytes));
}

}  // namespace giro::detail
