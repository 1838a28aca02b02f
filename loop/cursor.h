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
#include <giro/loop/interrupt.h>
#include <giro/loop/time/deadline.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/archive.h>

namespace giro::detail {

// A run's position in its dataset, without the types of the dataset and its batches.
class Cursor {
 public:
  // What it is doing. It stays as it is when a function throws, for error messages.
  enum class Activity { none, dataset, next_batch, batch_size };
  Activity activity = Activity::none;

  virtual ~Cursor() = default;
  // The number of batches that the dataset skips before begin().
  virtual std::int64_t first_batch() const = 0;
  // Goes to batch number `batch`. Returns false if there is none. Call this before the functions below.
  virtual bool begin(std::int64_t batch) = 0;
  // The batch here, and its number of samples.
  virtual const void* batch() = 0;
  virtual std::int64_t samples(const void* batch) = 0;
  // Goes to the next batch. Returns false at the end. `batch`, the one before, becomes null if it is no longer valid.
  virtual bool advance(const void*& batch) = 0;
  // Call this when the batch before is no longer needed, before batch() is called for the next.
  virtual void release() = 0;
  // Goes over batches as long as their steps are before `idle`: in these nothing happens but counting. Returns whether
  // the dataset has ended; its last step is not counted then, and `batch` is its batch, or null.
  virtual bool skip(const Deadline& idle, Elapsed& elapsed, const void*& batch) = 0;
  // Saves or restores what the dataset remembers.
  virtual void persist(Archive& archive) = 0;
};

// The position of a run in a dataset R of batches B. An iterator that returns by value makes a new batch at each
// access, so the batch is made once and kept here.
template <class R, class B>
class RangeCursor final : public Cursor {
  using Reference = std::ranges::range_reference_t<R>;

 public:
  static constexpr bool kIsReference = std::is_lvalue_reference_v<Reference>;

  RangeCursor(R& range, std::function<std::int64_t(const B&)> batch_size_fn)
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
  bool begin(std::int64_t batch) override {
    activity = Activity::dataset;
    it_.emplace(begin_at(*range_, first_, batch));
    const bool ends = is_at_end();
    activity = Activity::none;
    return !ends;
  }
  const void* batch() override {
    activity = Activity::dataset;
    const B& batch = **this;
    activity = Activity::none;
    return std::addressof(batch);
  }
  std::int64_t samples(const void* batch) override {
    activity = Activity::batch_size;
    const std::int64_t samples = samples_of(*static_cast<const B*>(batch));
    activity = Activity::none;
    return samples;
  }
  bool advance(const void*& batch) override {
    activity = Activity::next_batch;
    ++*it_;
    const bool ends = is_at_end();
    if (!outlives_advance(ends)) batch = nullptr;
    activity = Activity::none;
    return !ends;
  }
  void release() override {
    if constexpr (!kIsReference) made_.reset();
  }
  bool skip(const Deadline& idle, Elapsed& counted, const void*& last) override {
    if constexpr (!kIsReference) {
      if (made_) return false;
    }
    // Counts in registers, also up to an error.
    struct Count {
      Elapsed& result;
      Elapsed elapsed = result;
      ~Count() { result = elapsed; }
    } count{counted};
    Elapsed& elapsed = count.elapsed;
    auto& it = *it_;
    const auto end = std::ranges::end(*range_);
    while (elapsed.steps < idle.steps && !has_pending_signals()) {
      activity = Activity::dataset;
      auto&& batch = *it;
      activity = Activity::batch_size;
      elapsed.step_samples = samples_of(batch);
      const bool is_due = elapsed.samples + elapsed.step_samples >= idle.samples;
      if (!is_due) {
        activity = Activity::next_batch;
        ++it;
      }
      if (is_due || it == end) {
        const B* const kept = keep(std::forward<Reference>(batch));
        activity = Activity::none;
        if (!is_due) last = kept;
        return !is_due;
      }
      elapsed.count(elapsed.step_samples);
    }
    activity = Activity::none;
    return false;
  }
  void persist(Archive& archive) override {
    if constexpr (requires { range_->persist(archive); }) {
      archive.within("dataset", [&] { range_->persist(archive); });
    }
  }

 private:
  struct Nothing {};

  bool is_at_end() { return *it_ == std::ranges::end(*range_); }
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
