#include <giro/loop/data/dataset.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

namespace giro {

struct Dataset::Plan {
  Batch::Features rows;
  std::shared_ptr<const void> owner;
  RowOrder order;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> batch_size;
  bool drop_remainder = false;
  std::int64_t first_batch = 0;
  std::vector<std::function<Batch(const Batch&)>> maps;
  std::size_t prefetch = 0;
  std::shared_ptr<Residence> residence;

  std::int64_t rows_per_batch() const { return batch_size.value_or(1); }

  // Rows that the batches hold together, skipped ones included, or kForever.
  std::int64_t total_rows() const {
    if (epochs == kForever) return kForever;
    const std::int64_t total = order.size * epochs.value_or(1);
    return drop_remainder ? total - total % rows_per_batch() : total;
  }

  void require_unbatched(const char* call) const {
    if (batch_size) throw Error(ErrorCode::invalid_argument, fmt::format("{}: call it before batch", call));
  }
  void require_batched(const char* call) const {
    if (!batch_size) throw Error(ErrorCode::invalid_argument, fmt::format("{}: call it after batch", call));
  }
};

namespace {

// Keeps sums of a position and a batch within 63 bits.
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int64_t>::max() / 4;

// Host memory for batches, used again once nobody holds the batch it was taken for.
class StoragePool : public std::enable_shared_from_this<StoragePool> {
 public:
  using Storage = std::vector<Buffer>;  // a block for each feature

  explicit StoragePool(std::vector<std::size_t> block_sizes) : block_sizes_(std::move(block_sizes)) {}

  std::shared_ptr<Storage> take() {
    std::unique_ptr<Storage> storage = take_free();
    if (!storage) {
      storage = std::make_unique<Storage>();
      for (const std::size_t size : block_sizes_) storage->push_back(Buffer::allocate(Device::cpu(), size));
    }
    return {storage.release(), [pool = shared_from_this()](Storage* used) noexcept { pool->give_back(used); }};
  }

 private:
  std::unique_ptr<Storage> take_free() {
    const std::lock_guard lock(mutex_);
    return num_free_ > 0 ? std::move(free_[--num_free_]) : nullptr;
  }

  void give_back(Storage* used) noexcept {
    std::unique_ptr<Storage> storage(used);
    const std::lock_guard lock(mutex_);
    if (num_free_ < free_.size()) free_[num_free_++] = std::move(storage);
  }

  const std::vector<std::size_t> block_sizes_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Storage>, 8> free_;
  std::size_t num_free_ = 0;
};

// Calls a function on a thread of its own, up to `depth` results ahead of who takes them, until it gives
// nothing or throws.
class Prefetcher {
 public:
  Prefetcher(std::function<std::optional<Batch>()> make, std::size_t depth)
      : make_(std::move(make)), depth_(depth), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  // The next result, or what the function threw. Not to be called again after nothing or an exception.
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
  std::jthread thread_;  // last: it ends before what it uses goes
};

}  // namespace

Dataset::Dataset(Batch::Features rows, std::shared_ptr<const void> owner) {
  if (rows.empty()) throw Error(ErrorCode::invalid_argument, "a dataset needs at least one feature, found none");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, tensor] = rows[i];
    const bool repeated = std::any_of(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i),
                                      [&](const auto& earlier) { return earlier.first == rows[i].first; });
    if (name.empty() || repeated) {
      throw Error(ErrorCode::invalid_argument, fmt::format("a feature needs a name of its own, found '{}'", name));
    }
    if (!tensor.device().is_cpu()) {
      throw Error(ErrorCode::device_mismatch,
                  fmt::format("feature '{}' is {}, expected host memory", name, to_string(tensor)));
    }
    if (tensor.shape().rank() == 0 || tensor.shape()[0] < 1) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("feature '{}' is {}, expected at least one row", name, to_string(tensor)));
    }
    const auto& [first_name, first] = rows.front();
    if (tensor.shape()[0] != first.shape()[0]) {
      throw Error(ErrorCode::shape_mismatch, fmt::format("feature '{}' has {} rows, but '{}' has {}", name,
                                                         tensor.shape()[0], first_name, first.shape()[0]));
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->order.size = rows.front().second.shape()[0];
  plan->rows = std::move(rows);
  plan->owner = std::move(owner);
  plan_ = std::move(plan);
}

Dataset::Dataset(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

Dataset Dataset::shuffle(std::uint64_t seed) const {
  plan_->require_unbatched("shuffle");
  auto plan = std::make_shared<Plan>(*plan_);
  plan->order.seed = seed;
  plan->order.shuffled = true;
  return Dataset(std::move(plan));
}

Dataset Dataset::repeat(std::int64_t epochs) const {
  plan_->require_unbatched("repeat");
  if (plan_->epochs) throw Error(ErrorCode::invalid_argument, "repeat: the dataset is repeated already");
  if (epochs != kForever && (epochs < 1 || epochs > kMaxRows / num_rows())) {
    throw Error(ErrorCode::invalid_argument, fmt::format("repeat: {} epochs of {} rows, expected 1 to {}, or kForever",
                                                         epochs, num_rows(), kMaxRows / num_rows()));
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->epochs = epochs;
  return Dataset(std::move(plan));
}

Dataset Dataset::batch(std::int64_t size, bool drop_remainder) const {
  if (plan_->batch_size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch: the dataset has batches of {} already", *plan_->batch_size));
  }
  if (size < 1 || size > num_rows()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch: size {} is out of range, expected 1 to the dataset's {} rows", size, num_rows()));
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->batch_size = size;
  plan->drop_remainder = drop_remainder;
  return Dataset(std::move(plan));
}

Dataset Dataset::map(std::function<Batch(const Batch&)> f) const {
  plan_->require_batched("map");
  if (!f) throw Error(ErrorCode::invalid_argument, "map: the function is empty");
  if (plan_->residence) {
    throw Error(ErrorCode::invalid_argument, fmt::format("map: the rows lie on {}, but map runs on the host",
                                                         to_string(plan_->residence->device())));
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->maps.push_back(std::move(f));
  return Dataset(std::move(plan));
}

Dataset Dataset::prefetch(std::size_t depth) const {
  plan_->require_batched("prefetch");
  auto plan = std::make_shared<Plan>(*plan_);
  plan->prefetch = depth;
  return Dataset(std::move(plan));
}

Dataset Dataset::skip(std::int64_t batches) const {
  plan_->require_batched("skip");
  const std::int64_t most = kMaxRows / plan_->rows_per_batch() - plan_->first_batch;
  if (batches < 0 || batches > most) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("skip: {} batches is out of range, expected 0 to {}", batches, most));
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->first_batch += batches;
  return Dataset(std::move(plan));
}

Dataset Dataset::to(Device device) const {
  plan_->require_batched("to");
  if (!plan_->maps.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("to: the batches go through map on the host, so their rows cannot stay on {}", to_string(device)));
  }
  auto plan = std::make_shared<Plan>(*plan_);
  plan->residence = std::make_shared<Residence>(plan->rows, plan->order, device);
  return Dataset(std::move(plan));
}

std::int64_t Dataset::num_rows() const { return plan_->order.size; }

std::int64_t Dataset::num_batches() const {
  const std::int64_t total = plan_->total_rows(), size = plan_->rows_per_batch();
  if (total == kForever) return kForever;
  return std::max<std::int64_t>(0, (total + size - 1) / size - plan_->first_batch);
}

BatchSpec Dataset::spec() const {
  // The first batch is a full one.
  auto plan = std::make_shared<Plan>(*plan_);
  plan->first_batch = 0;
  plan->prefetch = 0;
  return (*Iterator(std::move(plan))).spec();
}

Dataset::Iterator Dataset::begin() const { return Iterator(plan_); }

struct Dataset::Iterator::Source {
  explicit Source(std::shared_ptr<const Plan> the_plan)
      : plan(std::move(the_plan)),
        position(plan->first_batch * plan->rows_per_batch()),
        end(plan->total_rows()),
        indices(static_cast<std::size_t>(plan->rows_per_batch())) {
    std::vector<std::size_t> block_sizes;
    for (const auto& [name, rows] : plan->rows) {
      block_sizes.push_back(rows.bytes() / static_cast<std::size_t>(plan->order.size) * indices.size());
    }
    pool = std::make_shared<StoragePool>(std::move(block_sizes));
    if (plan->prefetch > 0 && !plan->residence) {
      prefetcher.emplace([this] { return make(); }, plan->prefetch);
    }
    advance();
  }

  // On to the next batch; to the end, if making it throws.
  void advance() {
    current.reset();  // gives its memory back for the next
    current = prefetcher ? prefetcher->next() : make();
  }

  // The batch at `position`, which moves on; nothing at the end.
  std::optional<Batch> make() {
    if (end != kForever && position >= end) return std::nullopt;
    const std::int64_t full = plan->rows_per_batch();
    const std::int64_t count = end == kForever ? full : std::min(full, end - position);
    Batch batch = plan->residence ? Batch(plan->residence, position, count) : gather(count);
    position += count;
    for (const auto& f : plan->maps) {
      // What `f` returns may be views of what it was given.
      const auto kept = std::make_shared<std::pair<Batch, Batch>>(batch, f(batch));
      batch = Batch(kept->second.features(), kept);
    }
    return batch;
  }

  Batch gather(std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) indices[static_cast<std::size_t>(r)] = plan->order(position + r);
    const std::shared_ptr<StoragePool::Storage> storage = pool->take();
    Batch::Features features;
    features.reserve(plan->rows.size());
    for (std::size_t i = 0; i < plan->rows.size(); ++i) {
      const auto& [name, rows] = plan->rows[i];
      const std::size_t row_bytes = rows.bytes() / static_cast<std::size_t>(plan->order.size);
      const char* const from = static_cast<const char*>(rows.raw());
      char* const to = static_cast<char*>((*storage)[i].data());
      for (std::size_t r = 0; r < static_cast<std::size_t>(count) && row_bytes > 0; ++r) {
        std::memcpy(to + r * row_bytes, from + static_cast<std::size_t>(indices[r]) * row_bytes, row_bytes);
      }
      features.emplace_back(name, Tensor(to, rows.dtype(), rows.shape().drop_front().with_front(count), Device::cpu()));
    }
    return Batch(std::move(features), storage);
  }

  const std::shared_ptr<const Plan> plan;
  std::int64_t position;   // in rows, from the first epoch's first
  const std::int64_t end;  // or kForever
  std::vector<std::int64_t> indices;
  std::shared_ptr<StoragePool> pool;
  std::optional<Batch> current;
  std::optional<Prefetcher> prefetcher;  // last: its thread calls make
};

Dataset::Iterator::Iterator() = default;
Dataset::Iterator::Iterator(std::shared_ptr<const Plan> plan) : source_(std::make_unique<Source>(std::move(plan))) {}
Dataset::Iterator::Iterator(Iterator&&) noexcept = default;
Dataset::Iterator& Dataset::Iterator::operator=(Iterator&&) noexcept = default;
Dataset::Iterator::~Iterator() = default;

const Batch& Dataset::Iterator::operator*() const { return *source_->current; }

Dataset::Iterator& Dataset::Iterator::operator++() {
  if (!at_end()) source_->advance();
  return *this;
}

bool Dataset::Iterator::at_end() const { return !source_ || !source_->current; }

}  // namespace giro
