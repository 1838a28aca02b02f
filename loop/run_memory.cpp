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

void expect_counts(const Elapsed& elapsed, std::int64_t batches) {
  if (elapsed.steps >= 0 && elapsed.samples >= 0 && batches >= 0) return;
  throw Error(ErrorCode::corrupt_data,
              fmt::format("a run of {} steps, {} samples and {} batches was saved, expected none below 0",
                          elapsed.steps, elapsed.samples, batches));
}

}  // namespace giro::detail
