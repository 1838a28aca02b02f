#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace giro {

class Archive;

// How far a loop has come: completed steps and samples, and dates in seconds since the Unix epoch (Clock).
struct Elapsed {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double date = 0;
  double date_start = 0;
  // At the beginning of the latest step. Schedules by samples and time use what has passed since.
  std::int64_t previous_samples = 0;
  double previous_date = 0;
  bool last = false;              // whether the step that begins here is known to be the loop's last
  std::int64_t step_samples = 0;  // of the step that begins here
  // Tokens in each sample (LoopOptions::tokens_per_sample); 0: not known.
  std::int64_t tokens_per_sample = 0;

  double time() const noexcept { return date - date_start; }  // seconds
  // Completed tokens. Error(invalid_argument) unless tokens_per_sample is positive, here and in every comparison with a
  // period of tokens.
  std::int64_t tokens() const { return tokens_of(samples); }
  std::int64_t tokens_of(std::int64_t some_samples) const {
    if (tokens_per_sample < 1) reject_unknown_tokens();
    std::int64_t tokens = 0;
    if (__builtin_mul_overflow(some_samples, tokens_per_sample, &tokens)) reject_count("tokens");
    return tokens;
  }
  // The fewest samples with at least that many tokens. Errors as above.
  std::int64_t samples_with(std::int64_t some_tokens) const {
    const std::int64_t each = tokens_of(1);
    return some_tokens / each + (some_tokens % each > 0 ? 1 : 0);
  }

  // Counts one more step of `batch_size` samples and sets the date to now.
  void update(std::int64_t batch_size) {
    count(batch_size);
    date = now();
  }
  // The same, without reading the clock. Error(invalid_argument) if a count would exceed the largest std::int64_t.
  void count(std::int64_t batch_size) {
    std::int64_t all_steps = 0, all_samples = 0;
    if (__builtin_add_overflow(steps, 1, &all_steps)) reject_count("steps");
    if (__builtin_add_overflow(samples, batch_size, &all_samples)) reject_count("samples");
    previous_samples = std::exchange(samples, all_samples);
    previous_date = date;
    steps = all_steps;
  }

  // Reading shifts the dates along with the run's.
  void persist(Archive& archive);

  // Clock::now().
  static double now();

 private:
  [[noreturn]] void reject_unknown_tokens() const;
  [[noreturn]] static void reject_count(const char* of);
};

// The interval from b to a.
inline Elapsed operator-(const Elapsed& a, const Elapsed& b) {
  return {.steps = a.steps - b.steps,
          .samples = a.samples - b.samples,
          .date = a.date,
          .date_start = b.date,
          .tokens_per_sample = a.tokens_per_sample};
}

// A point in steps, samples, tokens, seconds since the start, or seconds since the Unix epoch. It is reached when one
// of the given fields is reached. Without fields, it is never reached.
struct Period {
  std::optional<std::int64_t> steps = {};
  std::optional<std::int64_t> samples = {};
  std::optional<std::int64_t> tokens = {};
  std::optional<double> time = {};
  std::optional<double> date = {};

  bool is_empty() const noexcept { return !steps && !samples && !tokens && !time && !date; }
};

namespace detail {
// Numbers that would be changed silently as a std::int64_t.
template <class T>
concept OtherNumber = std::floating_point<T> || (std::unsigned_integral<T> && sizeof(T) == sizeof(std::int64_t));
// Error(invalid_argument) for a number that is not whole or does not fit.
std::int64_t steps_of(double number);
std::int64_t steps_of(std::uint64_t number);
}  // namespace detail

// at(5'000), or at({.samples = 60'000, .time = 3'600.0}). Error(invalid_argument) for a number of steps that is not
// whole or does not fit a std::int64_t.
inline Period at(std::int64_t steps) { return {.steps = steps}; }
template <detail::OtherNumber T>
Period at(T steps) {
  using Widest = std::conditional_t<std::floating_point<T>, double, std::uint64_t>;
  return {.steps = detail::steps_of(static_cast<Widest>(steps))};
}
inline Period at(const Period& period) { return period; }

// A period as the value of an option: {.stop = 5'000}, or {.stop = at({.samples = 60'000})}.
struct PeriodOrSteps : Period {
  PeriodOrSteps() = default;
  PeriodOrSteps(std::int64_t number) : Period(at(number)) {}
  template <detail::OtherNumber T>
  PeriodOrSteps(T number) : Period(at(number)) {}
  PeriodOrSteps(const Period& period) : Period(period) {}
};

// elapsed >= period: any of its fields is reached; > : any is exceeded. The others follow from these two.
inline bool operator>=(const Elapsed& e, const Period& p) {
  return (p.steps && e.steps >= *p.steps) || (p.samples && e.samples >= *p.samples) ||
         (p.tokens && e.tokens() >= *p.tokens) || (p.time && e.time() >= *p.time) || (p.date && e.date >= *p.date);
}
inline bool operator>(const Elapsed& e, const Period& p) {
  return (p.steps && e.steps > *p.steps) || (p.samples && e.samples > *p.samples) ||
         (p.tokens && e.tokens() > *p.tokens) || (p.time && e.time() > *p.time) || (p.date && e.date > *p.date);
}
inline bool operator<(const Elapsed& e, const Period& p) { return !(e >= p); }
inline bool operator<=(const Elapsed& e, const Period& p) { return !(e > p); }
inline bool operator==(const Elapsed& e, const Period& p) { return e >= p && !(e > p); }

}  // namespace giro
