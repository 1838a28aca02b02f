#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <giro/loop/cursor.h>
#include <giro/loop/data/range.h>
#include <giro/loop/engine.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/not_copied.h>

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
class Elapse : detail::StateAccess, detail::NotCopied {
  using Cursor = detail::RangeCursor<R, std::ranges::range_value_t<R>>;

 public:
  using B = std::ranges::range_value_t<R>;
  struct Item {
    Elapsed elapsed;
    decltype(*std::declval<Cursor&>()) batch;
  };

  Elapse(R& dataset, ElapseOptions<B> options)
      : dataset_(dataset, std::move(options.batch_size_fn)),
        engine_(detail::Engine::create({.results = {.elapsed = options.initial},
                                        .stop = options.stop,
                                        .tokens_per_sample = options.tokens_per_sample,
                                        .arbiter = std::move(options.arbiter)},
                                       {}, dataset_, *this, loop_)),
        loop_(engine_->results.elapsed, engine_->results.history, engine_->results.metadata, engine_.get()) {}

  class Iterator {
   public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Elapse* owner) : owner_(owner) {}
    Item operator*() const { return {owner_->engine_->results.elapsed, *owner_->dataset_}; }
    Iterator& operator++() {
      owner_->has_step_ = owner_->engine_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !owner_->has_step_; }

   private:
    Elapse* owner_;
  };

  // Where it is: a second call does not start again.
  Iterator begin() & {
    Iterator here(this);
    return std::exchange(has_begun_, true) ? here : ++here;
  }
  Iterator begin() && = delete;
  std::default_sentinel_t end() const { return {}; }

 private:
  [[noreturn]] void raise(ErrorCode code, const std::string& message, const std::exception_ptr&) override {
    throw Error(code, message);
  }

  Cursor dataset_;
  std::unique_ptr<detail::Engine> engine_;
  detail::AnyLoopState loop_;
  bool has_begun_ = false, has_step_ = false;
};

template <std::ranges::input_range R>
Elapse<std::remove_reference_t<R>> elapse(
    R&& dataset, ElapseOptions<std::type_identity_t<std::ranges::range_value_t<R>>> options = {}) {
  static_assert(std::is_lvalue_reference_v<R>, "giro: elapse needs a named dataset that outlives the loop");
  return {dataset, std::move(options)};
}

}  // namespace giro
