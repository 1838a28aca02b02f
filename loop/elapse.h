#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>

#include <giro/loop/data/current_batch.h>
#include <giro/loop/loop.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

template <class B>
struct ElapseOptions {
  Period stop;                                               // default: when the dataset ends
  Elapsed initial = {};                                      // where an earlier loop has left off
  std::function<std::int64_t(const B&)> batch_size_fn = {};  // default: giro::batch_size
};

// The batches of a dataset with the time at the beginning of each step, for loops that are written by hand:
//
//   for (auto [elapsed, batch] : giro::elapse(train, {.stop = giro::at(5'000)})) { ... }
//
// A batch is a reference, valid for the step; where the dataset makes its batches, each is made once. Nothing is
// yielded once `stop` is reached, and no batch is asked for that is not yielded. A single pass; the dataset must
// outlive it.
template <std::ranges::input_range R>
class Elapse {
 public:
  using B = std::ranges::range_value_t<R>;
  using Current = detail::CurrentBatch<R, B>;
  struct Item {
    Elapsed elapsed;
    std::conditional_t<Current::kIsReference, std::ranges::range_reference_t<R>, const B&> batch;
  };

  Elapse(R& dataset, ElapseOptions<B> options) : dataset_(&dataset), options_(std::move(options)) {
    elapsed_ = options_.initial;
    const double now = Elapsed::now();
    elapsed_.date_start = now - elapsed_.time();
    elapsed_.previous_date += now - elapsed_.date;
    elapsed_.date = now;
  }

  class Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Elapse* owner) : owner_(owner) {}
    Item operator*() const {
      if constexpr (Current::kIsReference)
        return {owner_->elapsed_, **owner_->it_};
      else
        return {owner_->elapsed_, owner_->current_.at(*owner_->it_)};
    }
    Iterator& operator++() {
      owner_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return owner_->ended_; }

   private:
    Elapse* owner_;
  };

  Iterator begin() {
    ended_ = elapsed_ >= options_.stop;
    if (!ended_) {
      it_.emplace(std::ranges::begin(*dataset_));
      look();
    }
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  void advance() {
    elapsed_.update(size_);
    ended_ = elapsed_ >= options_.stop;
    if (ended_) return;
    ++*it_;
    current_.forget();
    look();
  }
  void look() {
    ended_ = *it_ == std::ranges::end(*dataset_);
    if (ended_) return;
    const B& batch = current_.at(*it_);
    size_ = options_.batch_size_fn ? options_.batch_size_fn(batch) : batch_size(batch);
    elapsed_.step_samples = size_;
    Elapsed after = elapsed_;
    after.count(size_);
    elapsed_.last = after >= options_.stop;
  }

  R* dataset_;
  ElapseOptions<B> options_;
  Elapsed elapsed_;
  std::optional<std::ranges::iterator_t<R>> it_;
  Current current_;
  std::int64_t size_ = 0;
  bool ended_ = false;
};

template <std::ranges::input_range R>
Elapse<std::remove_reference_t<R>> elapse(
    R&& dataset, ElapseOptions<std::type_identity_t<std::ranges::range_value_t<R>>> options = {}) {
  static_assert(std::is_lvalue_reference_v<R>, "giro: elapse needs a dataset with a name, which outlives the loop");
  return {dataset, std::move(options)};
}

}  // namespace giro
