#include "loop/data/dataset_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include <giro/runtime/rng.h>

#include "runtime/checksum.h"
#include "runtime/throw_error.h"

namespace giro {

RowSampler::RowSampler(const std::vector<double>& weights) : sums_(weights.size()) {
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] >= 0 && std::isfinite(weights[row])) continue;
    throw_invalid("sample: the weight of row {} is {}, expected a finite number of 0 or more", row, weights[row]);
  }
  std::partial_sum(weights.begin(), weights.end(), sums_.begin());
  if (!(sums_.back() > 0) || !std::isfinite(sums_.back())) {
    throw_invalid("sample: the sum of the weights is {}, expected a finite number above 0", sums_.back());
  }
  detail::Checksum checksum;
  checksum.add(weights.data(), weights.size() * sizeof(double));
  checksum_ = checksum.digits();
}

std::int64_t RowSampler::operator()(std::uint64_t seed, std::int64_t position) const {
  const auto at = static_cast<std::uint64_t>(position), rows = std::uint64_t{sums_.size()};
  const PhiloxBlock block = Rng{seed, RngPurpose::shuffle, at / rows}.block(at % rows);
  const std::uint64_t bits = std::uint64_t{block.word[1]} << 32 | block.word[0];
  // Kept below the sum, to which the product may round up, so that only rows of nonzero weight are drawn.
  const double drawn =
      std::min(static_cast<double>(bits >> 11) * 0x1p-53 * sums_.back(), std::nextafter(sums_.back(), 0));
  return std::upper_bound(sums_.begin(), sums_.end(), drawn) - sums_.begin();
}

std::shared_ptr<const Dataset::Plan> Dataset::Plan::of(std::vector<Feature> features, Batch::Features in_memory) {
  if (features.empty()) throw_invalid("Dataset: expected at least one feature, found none");
  const std::int64_t rows = features.front().rows->num_rows();
  for (std::size_t i = 0; i < features.size(); ++i) {
    const auto& [name, source] = features[i];
    const bool repeated = std::any_of(features.begin(), features.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const auto& earlier) { return earlier.name == features[i].name; });
    if (name.empty() || repeated) throw_invalid("Dataset: a feature needs a unique, non-empty name, found '{}'", name);
    if (source->num_rows() < 1) {
      throw_error(ErrorCode::shape_mismatch, "Dataset: feature '{}' is {}{}, expected at least one row", name,
                  name_of(source->dtype()), to_string(source->row_shape().with_front(0)));
    }
    if (source->num_rows() != rows) {
      throw_error(ErrorCode::shape_mismatch, "Dataset: feature '{}' has {} rows, but '{}' has {}", name,
                  source->num_rows(), features.front().name, rows);
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->order.size = rows;
  plan->features = std::move(features);
  plan->in_memory = std::move(in_memory);
  return plan;
}

const std::vector<std::string>& Dataset::Plan::checksums() const {
  constexpr std::int64_t kCompared = 256;  // evenly spread rows of each feature; rounding can nearly double them
  std::call_once(known->once, [&] {
    std::vector<std::string> all;  // a local, because a read may throw
    for (const Feature& feature : features) {
      const std::int64_t step = std::max<std::int64_t>(1, order.size / kCompared);
      std::vector<char> bytes(feature.row_bytes());
      detail::Checksum checksum;
      for (std::int64_t row = 0; row < order.size; row += step) {
        feature.rows->read({&row, 1}, bytes.data());
        checksum.add(bytes.data(), bytes.size());
      }
      all.push_back(checksum.digits());
    }
    known->of_features = std::move(all);
  });
  return known->of_features;
}

std::string Dataset::Plan::description() const {
  std::string lines =
      fmt::format("rows: {}\norder: {}\nepochs: {}\nbatch: {}, first {}{}\n", order.size,
                  sampler          ? fmt::format("drawn with weights {} and seed {}", sampler->checksum(), order.seed)
                  : order.shuffled ? fmt::format("shuffled with seed {}", order.seed)
                                   : "unshuffled",
                  epochs.value_or(1), rows_per_batch(), first_batch, drop_remainder ? ", full ones only" : "");
  for (std::size_t i = 0; i < features.size(); ++i) {
    const LeafSpec spec = features[i].spec(order.size);
    lines += fmt::format("feature {}: {}{}, checksum {}\n", spec.name, name_of(spec.dtype), to_string(spec.shape),
                         checksums()[i]);
  }
  return lines;
}

}  // namespace giro
