#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>

#include "runtime/program/recording.h"

namespace giro::detail {

// Call before queueing work that a recording cannot hold back. Queues what is held, and adds a node for the work.
inline void record_opaque_op(std::string op, std::vector<Tensor> writes = {}, std::vector<Tensor> reads = {}) {
  if (!Recording::holds()) return;
  Recording::current()->flush();
  Program::Node node(std::move(op), std::move(writes), std::move(reads));
  node.is_op = false;
  Recording::current()->program.add(std::move(node));
}

}  // namespace giro::detail
