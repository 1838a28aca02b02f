#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/span.h>

#include "loop/data/dataset_plan.h"
#include "runtime/throw_error.h"

namespace giro {
namespace detail {

// Host memory for batches, reused once its batch has been released.
class StoragePool : public std::enable_shared_from_this<StoragePool> {
 public:
  using Storage = std::vector<Buffer>;  // one block per feature

  explicit StoragePool(std::vector<std::size_t> block_sizes) : block_sizes_(std::move(block_sizes)) {}

  std::shared_ptr<Storage> take() {
    std::unique_ptr<Storage> storage = take_unused();
    if (!storage) {
      storage = std::make_unique<Storage>();
      for (const std::size_t size : block_sizes_) storage->push_back(Buffer::allocate(Device::cpu(), size));
    }
    return {storage.release(), [pool = shared_from_this()](Storage* used) noexcept { pool->recycle(used); }};
  }

 private:
  std::unique_ptr<Storage> take_unused() {
    const std::lock_guard lock(mutex_);
    return num_free_ > 0 ? std::move(free_[--num_free_]) : nullptr;
  }

  void recycle(Storage* used) noexcept {
    std::unique_ptr<Storage> storage(used);
    const std::lock_guard lock(mutex_);
    if (num_free_ < free_.size()) free_[num_free_++] = std::move(storage);
  }

  const std::vector<std::size_t> block_sizes_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Storage>, 8> free_;
  std::size_t num_free_ = 0;
};

// Calls a function on its own thread, up to `depth` results ahead of the consumer, until it returns nothing or throws.
class Prefetcher {
 public:
  Prefetcher(std::function<std::optional<Batch>()> make, std::size_t depth)
      : make_(std::move(make)), depth_(depth), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // Returns the next result, or rethrows the function's exception. Do not call it again after either nothing or an
  // exception.
  std::optional<Batch> next() {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !items_.empty(); });
      item = std::move(items_.front());
      items_.pop_front();
    }
    changed_.notify_one();
    if (item.error) std::rethrow_exception(item.error);
    return std::move(item.batch);
  }

 private:
  struct Item {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void run(const std::stop_token& stop) {
    bool more = true;
    while (more) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [&] { return items_.size() < depth_; });
        if (stop.stop_requested()) return;
      }
      Item item;
      try {
        const Span span("dataset", "prefetch a batch");
        item.batch = make_();
      } catch (...) {
        item.error = std::current_exception();
      }
      more = item.batch.has_value();
      {
        const std::lock_guard lock(mutex_);
        items_.push_back(std::move(item));
      }
      changed_.notify_one();
    }
  }

  const std::function<std::optional<Batch>()> make_;
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_;
  std::jthread thread_;  // declared last: it joins before the members it uses are destroyed
};

}  // namespace detail

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
