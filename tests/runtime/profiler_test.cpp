#include <giro/runtime/profiler.h>

#include <gtest/gtest.h>

#include <giro/runtime/device.h>
#include <giro/runtime/files/trace.h>
#include <giro/runtime/span.h>

#if GIRO_WITH_CUDA
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#endif

namespace giro {
namespace {

TEST(Profiler, NothingHappensWithoutAGpu) {
  if (!discover_devices().best().is_cpu()) return;
  start_profiler();
  EXPECT_FALSE(detail::is_watched());
  stop_profiler();
}

#if GIRO_WITH_CUDA
namespace nvtx {
// A tool that NVTX reports ranges to. Declared as in nvtx3/nvtxDetail/nvtxTypes.h, since tests need no CUDA headers.
using Function = void (*)();
struct Callbacks {
  std::size_t size;
  int (*module_functions)(int module, Function*** functions, unsigned int* size);
};
using TableOf = const void* (*)(std::uint32_t id);
constexpr std::uint32_t kCallbacks = 1;
constexpr int kCore = 1;
constexpr unsigned int kRangePush = 9, kRangePop = 11;

std::vector<std::string> ranges;
int push(const char* name) {
  ranges.emplace_back(name);
  return 0;
}
int pop() {
  ranges.emplace_back("pop");
  return 0;
}

int attach(TableOf table_of) {
  const auto* const callbacks = static_cast<const Callbacks*>(table_of(kCallbacks));
  Function** functions = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->module_functions(kCore, &functions, &size) == 0 || size <= kRangePop) return 0;
  *functions[kRangePush] = reinterpret_cast<Function>(&push);
  *functions[kRangePop] = reinterpret_cast<Function>(&pop);
  return 1;
}
}  // namespace nvtx

TEST(Profiler, SpansAreNvtxRangesWhileItRunsOnCuda) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  // An emulated GPU counts its calls.
  using Count = unsigned long long (*)(const char*);
  const auto calls = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_calls"));
  const auto started = [&] { return calls == nullptr ? 0 : calls("cudaProfilerStart"); };
  const auto stopped = [&] { return calls == nullptr ? 0 : calls("cudaProfilerStop"); };
  const auto started_before = started(), stopped_before = stopped();

  const auto span = [](const char* name, auto&& within) {
    const Span span("test", name);
    within();
  };
  nvtx::ranges.clear();
  span("before", [&] { start_profiler(); });
  span("outer", [&] { span("inner", [] {}); });
  {
    const Trace trace;  // makes no difference
    span("traced", [] {});
  }
  span("last", [&] { stop_profiler(); });
  span("after", [] {});
  {
    const Trace trace;
    span("no profile", [] {});
  }
  EXPECT_EQ(nvtx::ranges, (std::vector<std::string>{"outer", "inner", "pop", "pop", "traced", "pop", "last", "pop"}));
  EXPECT_FALSE(detail::is_watched());
  if (calls != nullptr) {
    EXPECT_EQ(started() - started_before, 1u);
    EXPECT_EQ(stopped() - stopped_before, 1u);
  }
}
#endif

}  // namespace
}  // namespace giro

#if GIRO_WITH_CUDA
// NVTX's own definition is weak.
extern "C" int (*InitializeInjectionNvtx2_fnptr)(giro::nvtx::TableOf);
int (*InitializeInjectionNvtx2_fnptr)(giro::nvtx::TableOf) = giro::nvtx::attach;
#endif
