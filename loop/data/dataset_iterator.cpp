#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/runtime/span.h>

#include "loop/data/dataset_plan.h"
#include "loop/data/prefetcher.h"
#include "loop/data/storage_pool.h"
#include "runtime/throw_error.h"

namespace giro {

struct Dataset::Iterator::Source {
  explicit Source(std::shared_ptr<const Plan> the_plan)
      : plan(std::move(the_plan)),
        position(plan->first_row()),
        indices(static_cast<std::size_t>(plan->rows_per_part())) {
    std::vector<std::size_t> block_sizes;
    for (const Plan::Feature& feature : plan->features) block_sizes.push_back(feature.row_bytes() * indices.size());
    pool = std::make_shared<detail::StoragePool>(std::move(block_sizes));
    if (plan->prefetch > 0 && !plan->resident_rows) {
      prefetcher.emplace([this] { return make(); }, plan->prefetch);
    }
    advance();
  }

  // Moves to the next batch, or to the end if there is none or making it throws. The current batch stays until the next
  // one has been made.
  void advance() {
    const Span span("dataset", "next batch");
    ended = true;
    std::optional<Batch> next = prefetcher ? prefetcher->next() : make();
    if (!next) return;
    current = std::move(next);
    ended = false;
  }

  // Makes the batch at `position` and moves the position past it; nothing at the end.
  std::optional<Batch> make() {
    const std::int64_t samples = plan->rows_at(position);
    if (samples == 0) return std::nullopt;
    const std::optional<BatchPart> part = plan->part_of(position);
    // A part without rows takes the batch's first row.
    const bool is_empty = part && part->rows == 0;
    const std::int64_t first = is_empty ? position : plan->part_at(position);
    const std::int64_t count = is_empty ? 1 : part ? part->rows : samples;
    Batch batch = plan->resident_rows ? Batch(plan->resident_rows, first, count) : gather(first, count);
    position += samples;
    for (const auto& f : plan->maps) {
      // The result of `f` may share memory with its argument.
      const auto kept = std::make_shared<std::pair<Batch, Batch>>(batch, f(batch));
      batch = Batch(kept->second.features(), kept);
    }
    batch.set_part(part);
    return batch;
  }

  Batch gather(std::int64_t first, std::int64_t count) {
    plan->indices_at(first, std::span(indices).first(static_cast<std::size_t>(count)));
    const std::shared_ptr<detail::StoragePool::Storage> storage = pool->take();
    Batch::Features features;
    features.reserve(plan->features.size());
    for (std::size_t i = 0; i < plan->features.size(); ++i) {
      const auto& [name, rows] = plan->features[i];
      void* const to = (*storage)[i].data();
      rows->read(std::span(indices).first(static_cast<std::size_t>(count)), to);
      features.emplace_back(name, Tensor(to, rows->dtype(), rows->row_shape().with_front(count), Device::cpu()));
    }
    return Batch(std::move(features), storage);
  }

  const std::shared_ptr<const Plan> plan;
  std::int64_t position;  // in rows since the start of the first epoch
  std::vector<std::int64_t> indices;
  std::shared_ptr<detail::StoragePool> pool;
  std::optional<Batch> current;
  bool ended = false;
  std::optional<detail::Prefetcher> prefetcher;  // declared last: its thread calls make
};

Dataset::Iterator::Iterator(std::shared_ptr<const Plan> plan) : source_(std::make_shared<Source>(std::move(plan))) {}

const Batch& Dataset::Iterator::operator*() const {
  if (!source_ || !source_->current)
    throw_invalid("an iterator of a data set has no batch, as one that was moved from");
  return *source_->current;
}

Dataset::Iterator& Dataset::Iterator::operator++() {
  if (!at_end()) source_->advance();
  return *this;
}

bool Dataset::Iterator::at_end() const { return !source_ || source_->ended; }

}  // namespace giro
