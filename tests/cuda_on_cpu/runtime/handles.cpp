#include "tests/cuda_on_cpu/runtime/handles.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

struct Account {
  struct Entry {
    std::uint64_t number;  // counts the handles of its kind
    std::size_t bytes;
  };
  std::map<std::pair<std::string_view, const void*>, Entry> live;
  std::map<std::string_view, std::uint64_t> created;
};

// Never destroyed, because the program's static objects destroy their handles late.
Account& account() {
  static Account* const account = new Account;
  return *account;
}

// Runs after the program's static objects are destroyed, because the program is linked against this library.
__attribute__((destructor)) void check_at_exit() {
  // On a GPU, the remaining work might already have failed, so it runs now. The thread that runs host functions may
  // hold the lock, or be stuck in a host function.
  if (api_mutex().try_lock_for(std::chrono::seconds(10))) run_remaining_work();
  const std::string leaks = leak_report(), failure = unreported_failure();
  const char* const mode = std::getenv("GIRO_CUDA_ON_CPU_LEAKS");
  const std::string_view asked = mode != nullptr ? mode : "fatal";
  const bool tell_leaks = !leaks.empty() && asked != "ignore";
  if (tell_leaks) std::fprintf(stderr, "cuda_on_cpu: left at exit:\n%s", leaks.c_str());
  if (!failure.empty()) {
    std::fprintf(stderr, "cuda_on_cpu: queued work failed and no call has reported it: %s\n", failure.c_str());
  }
  if ((tell_leaks && asked != "report") || !failure.empty()) {
    std::fflush(nullptr);
    _exit(70);  // not the 77 that tests use to skip themselves
  }
}

}  // namespace

void add_handle(const char* kind, const void* handle, std::size_t bytes) {
  const std::lock_guard lock(api_mutex());
  account().live[{kind, handle}] = {++account().created[kind], bytes};
}

bool remove_handle(const char* kind, const void* handle) {
  const std::lock_guard lock(api_mutex());
  return account().live.erase({kind, handle}) > 0;
}

bool is_alive(const char* kind, const void* handle) {
  const std::lock_guard lock(api_mutex());
  return account().live.contains({kind, handle});
}

void expect_alive(const char* kind, const void* handle, const char* call) {
  if (is_alive(kind, handle)) return;
  fail(cudaErrorInvalidResourceHandle,
       handle == nullptr ? fmt::format("{}: the {} is null", call, kind)
                         : fmt::format("{}: no such {}: destroyed before, or never created", call, kind));
}

std::string leak_report() {
  struct Sum {
    std::uint64_t count = 0, first = ~std::uint64_t{0}, bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const auto& [key, entry] : account().live) {
    Sum& sum = sums[key.first];
    ++sum.count;
    sum.bytes += entry.bytes;
    sum.first = std::min(sum.first, entry.number);
  }
  std::string report;
  for (const auto& [kind, sum] : sums) {
    report += fmt::format("  {}: {} not destroyed, the first is number {}", kind, sum.count, sum.first);
    report += sum.bytes > 0 ? fmt::format(", {} bytes\n", sum.bytes) : "\n";
  }
  return report;
}

}  // namespace cuda_on_cpu
