#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/batch.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// Small named values passed to every call of a step in addition to its batch. A recorded step receives them as leaves
// on its device that are written before the replay: an integer as an i64 scalar, so that counters are exact, any other
// number as an f32 scalar. So a new value needs no new recording; other names or dtypes do.
class Broadcasts {
 public:
  struct Number {
    template <std::integral T>
    Number(T value) : integer(static_cast<std::int64_t>(value)), is_integer(true) {}
    template <std::floating_point T>
    Number(T value) : number(static_cast<float>(value)) {}

    std::int64_t integer = 0;
    float number = 0;
    bool is_integer = false;
  };

  Broadcasts() = default;
  Broadcasts(std::initializer_list<std::pair<std::string, Number>> values);
  // What a loop passes to its steps: elapsed steps and samples, i64, and time in seconds, f32, as "steps", "samples"
  // and "time".
  explicit Broadcasts(const Elapsed& elapsed);
  // Sets the values for another Elapsed; only for broadcasts that were made from an Elapsed.
  void set(const Elapsed& elapsed);
  explicit Broadcasts(Batch values) : values_(std::move(values)) {}

  // The value with this name; within a step it is on the step's device and stream. Error(not_found) naming all names.
  nn::Var operator[](const std::string& name) const;
  const Batch& values() const noexcept { return values_; }
  bool empty() const noexcept { return values_.features().empty(); }

 private:
  void write(std::size_t value, const Number& number);

  std::shared_ptr<std::vector<std::int64_t>> memory_;  // a word for each value
  Batch values_;
};

}  // namespace giro
