#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <giro/loop/data/range.h>

namespace giro {

// A type-erased dataset: any range of batches B that can be iterated repeatedly, or a callable that makes a range for
// each pass. Copies share the range. Default-constructed, it has neither.
template <class B>
class AnyDataset {
  struct Pass {
    virtual ~Pass() = default;
    virtual bool ended() const = 0;
    virtual const B& batch() = 0;
    virtual void advance() = 0;
  };

 public:
  AnyDataset() = default;
  template <class R>
    requires(!std::is_same_v<std::remove_cvref_t<R>, AnyDataset> && std::ranges::input_range<R&>)
  AnyDataset(R range)
      : start_([range = std::make_shared<R>(std::move(range))] { return std::make_unique<PassOver<R>>(range); }) {}
  template <class F>
    requires std::ranges::input_range<std::invoke_result_t<F&>>
  AnyDataset(F make)
      : start_([make = std::move(make)]() mutable {
          using R = std::remove_cvref_t<std::invoke_result_t<F&>>;
          return std::make_unique<PassOver<R>>(std::make_shared<R>(make()));
        }) {}

  explicit operator bool() const noexcept { return static_cast<bool>(start_); }

  class Iterator {
   public:
    using value_type = B;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
    const B& operator*() const { return pass_->batch(); }
    Iterator& operator++() {
      pass_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return pass_->ended(); }

   private:
    std::unique_ptr<Pass> pass_;
  };
  Iterator begin() const { return Iterator(start_()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  template <class R>
  struct PassOver final : Pass {
    explicit PassOver(std::shared_ptr<R> dataset) : range(std::move(dataset)), it(std::ranges::begin(*range)) {}
    bool ended() const override { return it == std::ranges::end(*range); }
    const B& batch() override {
      if constexpr (std::is_lvalue_reference_v<std::ranges::range_reference_t<R>>) {
        return *it;
      } else {
        if (!std::exchange(is_made, true)) current.emplace(*it);
        return *current;
      }
    }
    void advance() override {
      ++it;
      if (!ended()) is_made = false;
    }

    std::shared_ptr<R> range;
    std::ranges::iterator_t<R> it;
    // For a range that returns by value: made once per position, and kept until the next one is made.
    std::optional<B> current;
    bool is_made = false;
  };

  std::function<std::unique_ptr<Pass>()> start_;
};

}  // namespace giro
