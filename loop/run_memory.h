#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

namespace detail {

// What a run offers to its callbacks (LoopState).
class RunMemory {
 public:
  virtual ~RunMemory() = default;
  virtual Elapsed completed() const = 0;
  virtual void at_step_end(std::function<void()> f) = 0;
  virtual void after_step(std::function<void()> f, bool first) = 0;
  virtual void persist(Archive& archive) = 0;
};

// Makes names unique: "a", "a #2", "b", "a #3".
class UniqueNames {
 public:
  std::string operator()(const std::string& name);

 private:
  std::vector<std::string> names_;
};

// Sets the value of LoopOptions::tokens_per_sample, unless it is 0. Error(invalid_argument) if it is negative, or
// differs from the value in the steps so far, which would change their token count.
void set_tokens_per_sample(Elapsed& elapsed, std::int64_t given);

// Error(corrupt_data) if a saved run has a negative count.
void expect_counts(const Elapsed& elapsed, std::int64_t batches);

}  // namespace detail
}  // namespace giro
