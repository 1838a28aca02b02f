#include "distributed/internal/job.h"

#include <mutex>

namespace giro::detail {
namespace {

struct First {
  std::mutex mutex;
  std::string failure;
};

// Never destroyed: threads that abort communicators may still run while the program exits.
First& first() {
  static auto* const first = new First;
  return *first;
}

}  // namespace

void set_failure(const std::string& why) noexcept {
  const std::lock_guard lock(first().mutex);
  if (first().failure.empty()) first().failure = why;
}

std::string failure() {
  const std::lock_guard lock(first().mutex);
  return first().failure;
}

}  // namespace giro::detail
