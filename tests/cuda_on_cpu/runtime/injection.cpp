#include "tests/cuda_on_cpu/runtime/injection.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "tests/cuda_on_cpu/runtime/error.h"

namespace cuda_on_cpu {
namespace {

constexpr std::array<std::string_view, 4> kNames{"allocation", "copy", "launch", "call"};

struct Counter {
  std::uint64_t calls = 0, failing = 0;  // failing: the number of the call that fails, 0 for none
};

int index_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<int>(i);
  }
  return -1;
}

std::array<Counter, kNames.size()> from_environment() {
  std::array<Counter, kNames.size()> counters;
  const char* const variable = std::getenv("GIRO_CUDA_ON_CPU_FAIL");
  std::string_view rest = variable != nullptr ? variable : "";
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t colon = entry.find(':');
    const int index = index_of(entry.substr(0, colon));
    if (index < 0 || colon == entry.npos) {
      std::fprintf(stderr,
                   "cuda_on_cpu: GIRO_CUDA_ON_CPU_FAIL: expected allocation:N, copy:N, launch:N or call:N, found %s\n",
                   std::string(entry).c_str());
      std::exit(2);
    }
    counters[static_cast<std::size_t>(index)].failing = std::strtoull(entry.data() + colon + 1, nullptr, 10);
  }
  return counters;
}

std::array<Counter, kNames.size()>& counters() {
  static std::array<Counter, kNames.size()> counters = from_environment();
  return counters;
}

std::string& calls_since_failure() {
  static auto* const calls = new std::string;
  return *calls;
}

std::map<std::string, unsigned long long, std::less<>>& calls_by_name() {
  static auto* const calls = new std::map<std::string, unsigned long long, std::less<>>;
  return *calls;
}

}  // namespace

void inject(Injection kind, cudaError_t code, const char* call) {
  const auto index = static_cast<std::size_t>(kind);
  Counter& counter = counters()[index];
  if (++counter.calls == counter.failing) {
    fail(code, fmt::format("{}: {} number {} was set to fail", call, kNames[index], counter.calls));
  }
}

void inject_call(const char* call) {
  calls_by_name()[call] += 1;
  std::string& calls = calls_since_failure();
  if (!calls.empty()) calls.append(" ").append(call);
  try {
    inject(Injection::call, cudaErrorUnknown, call);
  } catch (const CudaError&) {
    calls = call;
    throw;
  }
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" bool cuda_on_cpu_fail(const char* kind, unsigned long long nth) {
  const std::lock_guard lock(api_mutex());
  const int index = index_of(kind);
  if (index < 0) return false;
  Counter& counter = counters()[static_cast<std::size_t>(index)];
  counter.failing = nth > 0 ? counter.calls + nth : 0;
  if (index == static_cast<int>(Injection::call)) calls_since_failure().clear();
  return true;
}

extern "C" const char* cuda_on_cpu_calls_since_failure() {
  const std::lock_guard lock(api_mutex());
  return calls_since_failure().c_str();
}

extern "C" unsigned long long cuda_on_cpu_calls(const char* name) {
  const std::lock_guard lock(api_mutex());
  const auto found = calls_by_name().find(name);
  return found == calls_by_name().end() ? 0 : found->second;
}
