#pragma once

#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

#include <giro/loop/logs.h>
#include <giro/loop/loop.h>

namespace giro {

// The mean of each entry over batches, weighted by the samples given with each; outputs that are arrays are left out.
// Errors: invalid_argument (no samples), shape_mismatch (another entry that is no scalar).
Logs weighted_mean(const std::vector<std::pair<Logs, std::int64_t>>& batches);

// Runs a step, (state, batch) -> Logs, over every batch of a dataset that ends, and returns the weighted mean of what it
// logged. Waits once, at the end. Error(invalid_argument) if there is no batch.
template <class S, std::ranges::input_range R, class F>
Logs evaluate(S& state, R&& dataset, const F& step) {
  std::vector<std::pair<Logs, std::int64_t>> batches;
  for (auto&& batch : dataset) batches.emplace_back(step(state, batch), batch_size(batch));
  return weighted_mean(batches);
}

}  // namespace giro
