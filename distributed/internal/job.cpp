#include "distributed/internal/job.h"

#include <mutex>

namespace giro::detail {
namespace {

std::mutex mutex;
std::string first_failure;

}  // namespace

void set_failure(const std::string& why) noexcept {
  const std::lock_guard lock(mutex);
  if (first_failure.empty()) first_failure = why;
}

std::string failure() {
  const std::lock_guard lock(mutex);
  return first_failure;
}

}  // namespace giro::detail
