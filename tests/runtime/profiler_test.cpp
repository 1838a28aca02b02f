#include <giro/runtime/profiler.h>

#include <gtest/gtest.h>

#include <giro/runtime/device.h>
#include <giro/runtime/span.h>
#include <giro/runtime/trace.h>

#if GIRO_WITH_CUDA
#include <dlfcn.h>

#include <string>
#include <vector>

#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>
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
// A tool that NVTX tells of ranges.
std::vector<std::string> ranges;
int push(const char* name) {
  ranges.emplace_back(name);
  return 0;
}
int pop() {
  ranges.emplace_back("pop");
  return 0;
}

int attach(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangePop) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

TEST(Profiler, SpansAreNvtxRangesWhileItRunsOnCuda) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  // Where the GPU is an emulated one, it counts.
  using Count = unsigned long long (*)(const char*);
  const auto calls = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_calls"));
  const auto started = [&] { return calls == nullptr ? 0 : calls("cudaProfilerStart"); };
  const auto stopped = [&] { return calls == nullptr ? 0 : calls("cudaProfilerStop"); };
  const auto started_before = started(), stopped_before = stopped();

  const auto span = [](const char* name, auto&& within) {
    const Span span("test", name);
    within();
  };
  ranges.clear();
  span("before", [&] { start_profiler(); });
  span("outer", [&] { span("inner", [] {}); });
  {
    const Trace trace;  // which makes no difference
    span("traced", [] {});
  }
  span("last", [&] { stop_profiler(); });
  span("after", [] {});
  {
    const Trace trace;
    span("no profile", [] {});
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"outer", "inner", "pop", "pop", "traced", "pop", "last", "pop"}));
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
extern "C" NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = giro::attach;
#endif
