#include <giro/callbacks/check_replicas.h>

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include <giro/runtime/buffer.h>
#include <giro/runtime/tensor.h>

#include "kernels/elementwise.h"

namespace giro {

void check_replicas(const State& state, const Partitioner& partitioner) {
  if (partitioner.size() == 1) return;
  const Buffer buffer = state.stream().allocate(sizeof(std::int64_t));
  const Tensor value(buffer.data(), DType::i64, {}, state.device());
  std::string lines;
  for (const auto& collection : state.collections()) {
    if (!collection->saved() || collection->is_sharded()) continue;
    ops::digest(value, collection->bytes(), state.stream());
    lines += fmt::format("{}: {:016x}\n", collection->name(),
                         static_cast<std::uint64_t>(to_host<std::int64_t>(value, state.stream()).front()));
  }
  partitioner.expect_same("check_replicas: the state's bits", lines);
}

}  // namespace giro
