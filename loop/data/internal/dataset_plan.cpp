#include "loop/data/internal/dataset_plan.h"

#include <fmt/format.h>

#include "runtime/internal/checksum.h"

namespace giro {

const std::vector<std::string>& Dataset::Plan::checksums() const {
  constexpr std::int64_t kCompared = 256;  // evenly spread rows of each feature; rounding can nearly double them
  std::call_once(known->once, [&] {
    for (const auto& [name, tensor] : rows) {
      const std::size_t bytes = tensor.bytes() / static_cast<std::size_t>(order.size);
      const std::int64_t step = std::max<std::int64_t>(1, order.size / kCompared);
      detail::Checksum checksum;
      for (std::int64_t row = 0; row < order.size; row += step) {
        checksum.add(static_cast<const char*>(tensor.raw()) + static_cast<std::size_t>(row) * bytes, bytes);
      }
      known->of_features.push_back(checksum.digits());
    }
  });
  return known->of_features;
}

std::string Dataset::Plan::description() const {
  std::string lines =
      fmt::format("rows: {}\norder: {}\nepochs: {}\nbatch: {}, first {}{}\n", order.size,
                  order.shuffled ? fmt::format("shuffled with seed {}", order.seed) : "as they are", epochs.value_or(1),
                  rows_per_batch(), first_batch, drop_remainder ? ", whole ones alone" : "");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, tensor] = rows[i];
    lines += fmt::format("feature {}: {}, checksum {}\n", name, to_string(tensor), checksums()[i]);
  }
  return lines;
}

}  // namespace giro
