#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <giro/loop/data/current_batch.h>
#include <giro/loop/data/range.h>
#include <giro/loop/run_core.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

template <class B>
struct ElapseOptions {
  PeriodOrSteps stop = {};                                   // default: when the dataset ends
  Elapsed initial = {};                                      // where an earlier loop stopped
  std::function<std::int64_t(const B&)> batch_size_fn = {};  // default: giro::batch_size
  std::int64_t tokens_per_sample = 0;                        // as in LoopOptions
  std::shared_ptr<Arbiter> arbiter = {};                     // default: this process's clock and signals
};

// The batches of a dataset, each with the elapsed time at the beginning of its step, for hand-written loops:
//
//   for (auto [elapsed, batch] : giro::elapse(train, {.stop = giro::at(5'000)})) { ... }
//
// A batch is a reference, valid for the step. If the dataset returns batches by value, each is made once. Ends when
// `stop` is reached, and takes no batch from the dataset that it does not yield. Single pass; the dataset must outlive
// it.
template <std::ranges::input_range R>
class Elapse {
 public:
  using B = std::ranges::range_value_t<R>;
  using Current = detail::CurrentBatch<R, B>;
  struct Item {
    Elapsed elapsed;
    std::conditional_t<Current::kIsReference, std::ranges::range_reference_t<R>, const B&> batch;
  };

  Elapse(R& dataset, ElapseOptions<B> options)
      : dataset_(&dataset),
        core_({}, {},
              {.stop = options.stop,
               .elapsed = options.initial,
               .batch_size_fn = std::move(options.batch_size_fn),
               .tokens_per_sample = options.tokens_per_sample,
               .arbiter = std::move(options.arbiter)}) {}

  class Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Elapse* owner) : owner_(owner) {}
    Item operator*() const {
      if constexpr (Current::kIsReference) {
        return {owner_->core_.elapsed(), **owner_->it_};
      } else {
        return {owner_->core_.elapsed(), owner_->current_.at(*owner_->it_)};
      }
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
    core_.aim_at({});
    ended_ = core_.is_at_stop();
    if (!ended_) {
      it_.emplace(std::ranges::begin(*dataset_));
      begin_step();
    }
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  // A run without state and tasks; the loop's body is its step.
  struct Nothing {};
  using Core = detail::RunCore<Nothing, B>;

  void begin_step() {
    ended_ = *it_ == std::ranges::end(*dataset_);
    if (ended_) return;
    core_.begin_step(current_.at(*it_));
    core_.read_clock();
  }
  void advance() {
    ended_ = core_.ends_after_step() != Core::End::none;
    core_.end_step();
    if (ended_) return;
    ++*it_;
    current_.forget();
    begin_step();
  }

  R* dataset_;
  Core core_;
  std::optional<std::ranges::iterator_t<R>> it_;
  Current current_;
  bool ended_ = false;
};

template <std::ranges::input_range R>
Elapse<std::remove_reference_t<R>> elapse(
    R&& dataset, ElapseOptions<std::type_identity_t<std::ranges::range_value_t<R>>> options = {}) {
  static_assert(std::is_lvalue_reference_v<R>, "giro: elapse needs a named dataset that outlives the loop");
  return {dataset, std::move(options)};
}

}  // namespace giro
