#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <giro/loop/data/batch_size.h>
#include <giro/loop/data/begin_at.h>
#include <giro/loop/data/range.h>
#include <giro/loop/engine.h>
#include <giro/loop/interrupt.h>
#include <giro/runtime/files/archive.h>

namespace giro::detail {

// The position of a run in a dataset R of batches B. An iterator that returns by value makes a new batch at each
// access, so the batch is made once and kept here.
template <class R, class B>
class CursorOver final : public Cursor {
  using Reference = std::ranges::range_reference_t<R>;

 public:
  static constexpr bool kIsReference = std::is_lvalue_reference_v<Reference>;

  CursorOver(R& range, std::function<std::int64_t(const B&)> batch_size_fn)
      : range_(&range), batch_size_fn_(std::move(batch_size_fn)), first_(detail::first_batch(range)) {}

  // The batch here, as the dataset gives it if that is a reference.
  std::conditional_t<kIsReference, Reference, const B&> operator*() {
    if constexpr (kIsReference) {
      return **it_;
    } else {
      if (!made_) made_.emplace(**it_);
      return *made_;
    }
  }

  std::int64_t first_batch() const override { return first_; }
  void begin(std::int64_t batch) override { it_.emplace(begin_at(*range_, first_, batch)); }
  bool at_end() const override { return *it_ == std::ranges::end(*range_); }
  const void* batch() override {
    const B& batch = **this;
    return std::addressof(batch);
  }
  std::int64_t samples(const void* batch) const override { return samples_of(*static_cast<const B*>(batch)); }
  bool advance(const void*& batch) override {
    ++*it_;
    const bool ends = at_end();
    if (!outlives_advance(ends)) batch = nullptr;
    return !ends;
  }
  void release() override {
    if constexpr (!kIsReference) made_.reset();
  }
  bool skip(const IdleSteps& idle, Elapsed& elapsed, Activity& activity, const void*& last) override {
    auto& it = *it_;
    const auto end = std::ranges::end(*range_);
    if constexpr (!kIsReference) {
      if (made_) return false;
    }
    while (elapsed.steps < idle.until_steps && !has_pending_signals()) {
      activity = Activity::dataset;
      auto&& batch = *it;
      activity = Activity::batch_size;
      const std::int64_t samples = samples_of(batch);
      if (elapsed.samples + samples >= idle.until_samples) {
        (void)keep(std::forward<Reference>(batch));
        return false;
      }
      activity = Activity::next_batch;
      elapsed.step_samples = samples;
      ++it;
      if (it == end) {
        last = keep(std::forward<Reference>(batch));
        return true;
      }
      elapsed.count(samples);
    }
    return false;
  }
  void persist(Archive& archive) override {
    if constexpr (requires { range_->persist(archive); }) {
      archive.within("dataset", [&] { range_->persist(archive); });
    }
  }

 private:
  struct Nothing {};

  // Whether a batch stays valid when its iterator advances, possibly to the end.
  static constexpr bool outlives_advance(bool to_end) {
    return !kIsReference || std::ranges::forward_range<R> || (to_end && keeps_last_batch<std::remove_cvref_t<R>>);
  }
  std::int64_t samples_of(const B& batch) const { return batch_size_fn_ ? batch_size_fn_(batch) : batch_size(batch); }
  // Keeps a batch that the dataset has made. Returns null if it does not outlive the iterator.
  const B* keep(Reference&& batch) {
    if constexpr (kIsReference) {
      const B& kept = batch;
      return outlives_advance(true) ? std::addressof(kept) : nullptr;
    } else {
      return std::addressof(made_.emplace(std::forward<Reference>(batch)));
    }
  }

  R* range_;
  std::function<std::int64_t(const B&)> batch_size_fn_;
  std::int64_t first_;
  std::optional<std::ranges::iterator_t<R>> it_;
  std::conditional_t<kIsReference, Nothing, std::optional<B>> made_;  // what the iterator has returned by value
};

}  // namespace giro::detail
