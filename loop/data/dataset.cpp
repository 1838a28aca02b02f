#include <giro/loop/data/dataset.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>

#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/rng.h>

#include "loop/data/dataset_plan.h"
#include "loop/data/resident_rows.h"
#include "runtime/checksum.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

void require_unbatched(const std::optional<std::int64_t>& batch_size, const char* call) {
  if (batch_size) throw_invalid("{}: call it before batch", call);
}
void require_batched(const std::optional<std::int64_t>& batch_size, const char* call) {
  if (!batch_size) throw_invalid("{}: call it after batch", call);
}

Batch::Features tensors_of(const Dataset::Arrays& arrays) {
  Batch::Features rows;
  for (const auto& [name, array] : arrays) rows.emplace_back(name, array.tensor());
  return rows;
}

class RowsInMemory final : public RowSource {
 public:
  RowsInMemory(const Tensor& rows, std::shared_ptr<const void> owner) : rows_(rows), owner_(std::move(owner)) {}

  std::int64_t num_rows() const override { return rows_.shape()[0]; }
  DType dtype() const override { return rows_.dtype(); }
  Shape row_shape() const override { return rows_.shape().drop_front(); }
  void read(std::span<const std::int64_t> rows, void* to) const override {
    const std::size_t bytes = rows_.bytes() / static_cast<std::size_t>(num_rows());
    if (bytes == 0) return;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(static_cast<char*>(to) + i * bytes,
                  static_cast<const char*>(rows_.raw()) + static_cast<std::size_t>(rows[i]) * bytes, bytes);
    }
  }

 private:
  Tensor rows_;
  std::shared_ptr<const void> owner_;
};

}  // namespace

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

Dataset::Dataset(Batch::Features rows, std::shared_ptr<const void> owner) {
  std::vector<Plan::Feature> features;
  for (const auto& [name, tensor] : rows) {
    if (!tensor.device().is_cpu()) {
      throw_error(ErrorCode::device_mismatch, "Dataset: feature '{}' is {}, expected host memory", name,
                  to_string(tensor));
    }
    if (tensor.shape().rank() == 0) {
      throw_error(ErrorCode::shape_mismatch, "Dataset: feature '{}' is {}, expected at least one row", name,
                  to_string(tensor));
    }
    features.push_back({name, std::make_shared<const RowsInMemory>(tensor, owner)});
  }
  plan_ = Plan::of(std::move(features), std::move(rows));
}

Dataset::Dataset(const std::vector<std::pair<std::string, std::shared_ptr<const RowSource>>>& given) {
  std::vector<Plan::Feature> features;
  for (const auto& [name, rows] : given) {
    if (!rows) throw_invalid("Dataset: feature '{}' has no rows", name);
    features.push_back({name, rows});
  }
  plan_ = Plan::of(std::move(features), {});
}

Dataset::Dataset(const Arrays& arrays) : Dataset(tensors_of(arrays), std::make_shared<const Arrays>(arrays)) {}

Dataset::Dataset(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

Dataset Dataset::shuffle(std::uint64_t seed) const {
  require_unbatched(plan_->batch_size, "shuffle");
  if (plan_->sampler) throw_invalid("shuffle: sample already draws the rows");
  return Dataset(plan_->with([&](Plan& plan) {
    plan.order.seed = seed;
    plan.order.shuffled = true;
  }));
}

Dataset Dataset::sample(const std::vector<double>& weights, std::uint64_t seed) const {
  require_unbatched(plan_->batch_size, "sample");
  if (plan_->order.shuffled || plan_->sampler) {
    throw_invalid("sample: the dataset is already {}", plan_->sampler ? "sampled" : "shuffled");
  }
  if (static_cast<std::int64_t>(weights.size()) != num_rows()) {
    throw_invalid("sample: {} weights, expected one for each of the {} rows", weights.size(), num_rows());
  }
  return Dataset(plan_->with([&](Plan& plan) {
    plan.sampler = std::make_shared<const RowSampler>(weights);
    plan.order.seed = seed;
  }));
}

Dataset Dataset::repeat(std::int64_t epochs) const {
  require_unbatched(plan_->batch_size, "repeat");
  if (plan_->epochs) throw_invalid("repeat: the dataset is already repeated");
  if (epochs != kForever && (epochs < 1 || epochs > Plan::kMaxRows / num_rows())) {
    throw_invalid("repeat: {} epochs of {} rows, expected 1 to {}, or kForever", epochs, num_rows(),
                  Plan::kMaxRows / num_rows());
  }
  return Dataset(plan_->with([&](Plan& plan) { plan.epochs = epochs; }));
}

Dataset Dataset::batch(std::int64_t size, bool drop_remainder) const {
  if (plan_->batch_size) throw_invalid("batch: the dataset already has batches of {}", *plan_->batch_size);
  if (size < 1 || size > num_rows()) {
    throw_invalid("batch: size {} is out of range, expected 1 to the dataset's {} rows", size, num_rows());
  }
  return Dataset(plan_->with([&](Plan& plan) {
    plan.batch_size = size;
    plan.drop_remainder = drop_remainder;
  }));
}

Dataset Dataset::map(std::function<Batch(const Batch&)> f) const {
  require_batched(plan_->batch_size, "map");
  if (!f) throw_invalid("map: the function is empty");
  if (plan_->resident_rows) {
    throw_invalid("map: the rows are on {}, but map runs on the host", to_string(plan_->resident_rows->device()));
  }
  return Dataset(plan_->with([&](Plan& plan) { plan.maps.push_back(std::move(f)); }));
}

Dataset Dataset::prefetch(std::size_t depth) const {
  require_batched(plan_->batch_size, "prefetch");
  return Dataset(plan_->with([&](Plan& plan) { plan.prefetch = depth; }));
}

Dataset Dataset::skip(std::int64_t batches) const {
  require_batched(plan_->batch_size, "skip");
  const std::int64_t most = Plan::kMaxRows / plan_->rows_per_batch() - plan_->first_batch;
  if (batches < 0 || batches > most) throw_invalid("skip: {} batches is out of range, expected 0 to {}", batches, most);
  return Dataset(plan_->with([&](Plan& plan) { plan.first_batch += batches; }));
}

Dataset Dataset::to(Device device) const {
  require_batched(plan_->batch_size, "to");
  if (!plan_->maps.empty()) {
    throw_invalid("to: the batches go through map on the host, so their rows cannot stay on {}", to_string(device));
  }
  if (plan_->sampler) {
    throw_error(ErrorCode::unsupported, "to: the rows are drawn by sample on the host, so they cannot stay on {}",
                to_string(device));
  }
  try {
    return Dataset(plan_->with(
        [&](Plan& plan) { plan.resident_rows = std::make_shared<ResidentRows>(rows(), plan.order, device); }));
  } catch (const Error& error) {
    throw_error(error.code(), "to: the rows cannot be copied to {}: {}", to_string(device), error.what());
  }
}

Dataset Dataset::partition(const std::shared_ptr<const Partitioner>& partitioner) const {
  require_batched(plan_->batch_size, "partition");
  if (!partitioner) return *this;
  if (plan_->ranks != 1) throw_invalid("partition: the dataset is already partitioned");
  const int ranks = partitioner->size();
  if (*plan_->batch_size % ranks != 0) {
    const LeafSpec first = plan_->features.front().spec(*plan_->batch_size);
    throw_invalid("partition: a batch of {} cannot be divided evenly over {} ranks; its feature '{}' is {}",
                  *plan_->batch_size, ranks, first.name, to_string(first.shape));
  }
  partitioner->expect_same("the dataset", plan_->description());
  return Dataset(plan_->with([&](Plan& plan) {
    plan.rank = partitioner->rank();
    plan.ranks = ranks;
  }));
}

const Batch::Features& Dataset::rows() const& {
  if (plan_->in_memory.empty()) {
    throw_error(ErrorCode::unsupported, "the rows of '{}' are not in memory: they are read when a batch is made",
                plan_->features.front().name);
  }
  return plan_->in_memory;
}

std::vector<std::int64_t> Dataset::indices(std::int64_t batch) const {
  const std::int64_t size = plan_->rows_per_batch(), batches = num_batches();
  const std::int64_t end = batches == kForever ? Plan::kMaxRows / size - plan_->first_batch : batches;
  if (batch < 0 || batch >= end) {
    throw_invalid("indices: batch {} is out of range, expected a batch in [0, {})", batch, end);
  }
  const std::int64_t position = plan_->first_row() + batch * size;
  const std::optional<BatchPart> part = plan_->part_of(position);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(part ? part->rows : plan_->rows_at(position)));
  plan_->indices_at(plan_->part_at(position), indices);
  return indices;
}

std::int64_t Dataset::num_rows() const { return plan_->order.size; }

std::int64_t Dataset::num_batches() const {
  const std::int64_t total = plan_->total_rows(), size = plan_->rows_per_batch();
  if (total == kForever) return kForever;
  return std::max<std::int64_t>(0, (total + size - 1) / size - plan_->first_batch);
}

BatchSpec Dataset::spec() const {
  // The first batch is always full.
  const Iterator first(plan_->with([](Plan& plan) { plan.first_batch = plan.prefetch = 0; }));
  return (*first).spec();
}

std::int64_t Dataset::first_batch() const { return plan_->first_batch; }

Dataset::Iterator Dataset::begin_at(std::int64_t batch) const {
  const std::int64_t most = Plan::kMaxRows / plan_->rows_per_batch();
  if (batch < 0 || batch > most) throw_invalid("begin_at: batch {} is out of range, expected 0 to {}", batch, most);
  return Iterator(plan_->with([&](Plan& plan) { plan.first_batch = batch; }));
}

void Dataset::persist(Archive& archive) const {
  constexpr Archive::Owner kOwner{"the dataset", "to go on with other data, restore() the state alone"};
  const auto same = [&](const char* name, const auto& value) { archive.same(kOwner, name, value); };
  same("num_rows", num_rows());
  same("batch_size", plan_->rows_per_batch());
  same("shuffled", plan_->order.shuffled);
  if (plan_->sampler || archive.contains("weights")) {
    archive.same(kOwner, "weights", plan_->sampler ? plan_->sampler->checksum() : "none", std::string("none"));
  }
  if (plan_->order.shuffled || plan_->sampler) same("seed", plan_->order.seed);
  std::string checksums;
  for (std::size_t i = 0; i < plan_->features.size(); ++i) {
    checksums += fmt::format("{}{}: {}", i == 0 ? "" : ", ", plan_->features[i].name, plan_->checksums()[i]);
  }
  same("checksums", checksums);
}

Dataset::Iterator Dataset::begin() const { return Iterator(plan_); }

}  // namespace giro
