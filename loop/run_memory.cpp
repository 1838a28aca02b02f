#include <giro/loop/run_memory.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::detail {

std::string UniqueNames::operator()(const std::string& name) {
  const auto before = std::count(names_.begin(), names_.end(), name);
  names_.push_back(name);
  return before == 0 ? name : fmt::format("{} #{}", name, before + 1);
}

void set_tokens_per_sample(Elapsed& elapsed, std::int64_t given) {
  if (given == 0) return;
  if (given < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("LoopOptions::tokens_per_sample is {}, expected at least 0", given));
  }
  if (elapsed.steps > 0 && elapsed.tokens_per_sample > 0 && elapsed.tokens_per_sample != given) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("LoopOptions::tokens_per_sample is {}, expected {}, as in the {} previous steps", given,
                            elapsed.tokens_per_sample, elapsed.steps));
  }
  elapsed.tokens_per_sample = given;
}

void expect_counts(const Elapsed& elapsed, std::int64_t batches) {
  if (elapsed.steps >= 0 && elapsed.samples >= 0 && batches >= 0) return;
  throw Error(ErrorCode::corrupt_data,
              fmt::format("the saved run has {} steps, {} samples and {} batches, expected none below 0", elapsed.steps,
                          elapsed.samples, batches));
}

}  // namespace giro::detail
