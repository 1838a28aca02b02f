#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <giro/loop/data/begin_at.h>
#include <giro/loop/data/range.h>
#include <giro/runtime/error.h>

namespace giro {

class Archive;

// A type-erased dataset: any range of batches B that can be iterated repeatedly (can_begin_again), or a callable that
// makes a range for each pass, such as a generator. Copies share the range, so only one thread at a time may use them.
// A default-constructed one is empty, and each use is an Error(invalid_argument).
template <class B>
class AnyDataset {
  struct Pass {
    virtual ~Pass() = default;
    virtual bool ended() const = 0;
    virtual const B& batch() = 0;
    virtual void advance() = 0;
  };
  struct Source {
    virtual ~Source() = default;
    virtual std::int64_t first_batch() const = 0;
    virtual std::optional<std::int64_t> num_batches() const = 0;
    virtual std::unique_ptr<Pass> begin_at(std::int64_t batch) const = 0;
    virtual void persist(Archive& archive) const = 0;
  };

 public:
  AnyDataset() = default;
  template <class R>
    requires(!std::is_same_v<std::remove_cvref_t<R>, AnyDataset> && std::ranges::input_range<R&>)
  AnyDataset(R range)
      : source_(std::make_shared<SourceOf<R>>([range = std::make_shared<R>(std::move(range))] { return range; })) {
    static_assert(can_begin_again<R>,
                  "giro: a loop goes over this range more than once, but its begin() is not const, as if it could be "
                  "traversed only once: pass a function that returns a range for each pass, or make begin() const");
  }
  template <class F>
    requires std::ranges::input_range<std::invoke_result_t<F&>>
  AnyDataset(F make) {
    using R = std::remove_cvref_t<std::invoke_result_t<F&>>;
    source_ = std::make_shared<SourceOf<R>>([make = std::move(make)]() mutable { return std::make_shared<R>(make()); });
  }

  explicit operator bool() const noexcept { return static_cast<bool>(source_); }

  // The same without its first `batches` >= 0 batches.
  AnyDataset skip(std::int64_t batches) const {
    AnyDataset rest = *this;
    rest.skipped_ += batches;
    return rest;
  }
  // The number of batches, or kForever; none if the range has no num_batches().
  std::optional<std::int64_t> num_batches() const {
    std::optional<std::int64_t> batches = source().num_batches();
    if (batches && *batches != kForever) batches = *batches > skipped_ ? *batches - skipped_ : 0;
    return batches;
  }
  static constexpr std::int64_t kForever = -1;
  // As for any dataset of a Run.
  std::int64_t first_batch() const { return source().first_batch() + skipped_; }
  void persist(Archive& archive) const { source().persist(archive); }

  class Iterator {
   public:
    using value_type = B;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
    const B& operator*() const { return pass().batch(); }
    Iterator& operator++() {
      pass().advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return pass().ended(); }

   private:
    Pass& pass() const {
      if (!pass_)
        throw Error(ErrorCode::invalid_argument, "an iterator of a data set was used that had been moved from");
      return *pass_;
    }

    std::unique_ptr<Pass> pass_;
  };
  Iterator begin() const { return begin_at(first_batch()); }
  Iterator begin_at(std::int64_t batch) const { return Iterator(source().begin_at(batch)); }
  std::default_sentinel_t end() const { return {}; }

 private:
  template <class R>
  struct RangePass final : Pass {
    // At batch `batch` of the range, whose begin() is at `first`.
    RangePass(std::shared_ptr<R> dataset, std::int64_t first, std::int64_t batch)
        : range(std::move(dataset)), it(detail::begin_at(*range, first, batch)) {}
    bool ended() const override { return it == std::ranges::end(*range); }
    const B& batch() override {
      if constexpr (std::is_lvalue_reference_v<std::ranges::range_reference_t<R>> && keeps_last_batch<R>) {
        return *it;
      } else {
        if (!is_made) current.emplace(*it);
        is_made = true;
        return *current;
      }
    }
    void advance() override {
      ++it;
      if (!ended()) is_made = false;
    }

    std::shared_ptr<R> range;
    std::ranges::iterator_t<R> it;
    // For a range that returns by value or does not keep its last batch: one per position, until the next is made.
    std::optional<B> current;
    bool is_made = false;
  };
  template <class R>
  struct SourceOf final : Source {
    explicit SourceOf(std::function<std::shared_ptr<R>()> the_make) : make(std::move(the_make)) {}
    std::int64_t first_batch() const override { return detail::first_batch(*next_range()); }
    std::optional<std::int64_t> num_batches() const override {
      if constexpr (requires(R& range) { range.num_batches(); }) return next_range()->num_batches();
      return std::nullopt;
    }
    std::unique_ptr<Pass> begin_at(std::int64_t batch) const override {
      const std::int64_t first = first_batch();
      auto pass = std::make_unique<RangePass<R>>(std::exchange(next, nullptr), first, batch);
      if (batch != first) return pass;
      const bool is_empty = pass->ended();
      if (is_empty && had_batches) {
        throw Error(ErrorCode::invalid_argument,
                    "the dataset had batches in an earlier pass and has none now, expected a range that can be "
                    "traversed again, or a function that returns a range for each pass");
      }
      had_batches = !is_empty;
      return pass;
    }
    void persist(Archive& archive) const override {
      if constexpr (requires(R& range) { range.persist(archive); }) next_range()->persist(archive);
    }

    R* next_range() const {
      if (!next) next = make();
      return next.get();
    }

    std::function<std::shared_ptr<R>()> make;
    // The range of the next pass, if it was needed before the pass began: each pass has one range.
    mutable std::shared_ptr<R> next = nullptr;
    mutable bool had_batches = false;
  };

  const Source& source() const {
    if (!source_) throw Error(ErrorCode::invalid_argument, "AnyDataset: it is empty, expected one made from a range");
    return *source_;
  }

  std::shared_ptr<const Source> source_;
  std::int64_t skipped_ = 0;
};

template <class B>
inline constexpr bool keeps_last_batch<AnyDataset<B>> = true;

}  // namespace giro
