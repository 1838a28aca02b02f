#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <giro/loop/data/batch.h>
#include <giro/runtime/span.h>

namespace giro::detail {

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

}  // namespace giro::detail
