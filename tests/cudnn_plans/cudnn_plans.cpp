// Checks that cuDNN has plans for giro's convolutions and attention on several GPUs. This takes no GPU, only
// descriptions of them.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "kernels/cuda/graph_plan.h"
#include "tests/kernels/convolutions.h"
#include "tests/support/temporary_directory.h"

namespace giro::cuda {
namespace {

struct Gpu {
  const char* name;
  int architecture, multiprocessors, shared_bytes;  // shared_bytes: of a block that opts in
  std::int64_t memory_bytes;
  int clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes;

  // In the format of cuDNN 9.28's descriptions of devices. Versions before 9.27 ignore memoryBusWidth.
  std::string description() const {
    return fmt::format(
        R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
        R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
        R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
        R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":{},)"
        R"("smClockRateKHz":{},"memClockRateKHz":{},"memoryBusWidth":{},"l2CacheSize":{},"cudaDeviceId":0,)"
        R"("deviceVer":{},"driverVer":13000,"deviceName":"{}"}})",
        multiprocessors, shared_bytes, memory_bytes, clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes,
        architecture, name);
  }
};

// From NVIDIA's data sheets.
constexpr Gpu kGpus[] = {
    {"NVIDIA A100-SXM4-80GB", 800, 108, 166'912, 85'899'345'920, 1'410'000, 1'593'000, 5'120, 41'943'040},
    {"NVIDIA H100 80GB HBM3", 900, 132, 232'448, 85'899'345'920, 1'980'000, 2'619'000, 5'120, 52'428'800},
    {"NVIDIA H200", 900, 132, 232'448, 150'117'810'176, 1'980'000, 3'201'000, 6'144, 62'914'560},
    {"NVIDIA B200", 1000, 148, 232'448, 191'503'007'744, 1'965'000, 3'996'000, 8'192, 132'644'864},
};

// The convolutions of the tests, and of samples/mnist.cpp at the measured batch sizes.
std::vector<test::Convolution> all_convolutions() {
  std::vector<test::Convolution> all = test::convolutions();
  for (const std::int64_t batch : {32, 128, 1'024, 8'192}) {
    all.push_back(test::same(fmt::format("mnist, conv0, batch {}", batch), {batch, 28, 28, 1}, {32, 3, 3, 1}));
    all.push_back(test::same(fmt::format("mnist, conv1, batch {}", batch), {batch, 14, 14, 32}, {64, 3, 3, 32}));
  }
  return all;
}

// In each precision: y with and without a bias, both gradients, and in 16 bits also the relu that a rule fuses.
std::vector<Convolution> questions(const test::Convolution& convolution) {
  using Result = Convolution::Result;
  std::vector<Convolution> all;
  for (const auto& [dtype, math] : {std::pair{DType::f32, MathMode::f32}, std::pair{DType::f32, MathMode::tf32},
                                    std::pair{DType::bf16, MathMode::f32}, std::pair{DType::f16, MathMode::f32}}) {
    const Convolution plain{Result::y, convolution.x, convolution.w, convolution.y(), convolution.options, dtype, math};
    all.insert(all.end(), 4, plain);
    all[all.size() - 3].has_bias = true;
    all[all.size() - 2].result = Result::dx;
    all[all.size() - 1].result = Result::dw;
    if (dtype == DType::f32) continue;
    all.push_back(plain);
    all.back().has_bias = all.back().has_relu = true;
  }
  return all;
}

std::string text_of(const test::Convolution& convolution, const Convolution& asked) {
  constexpr const char* kResults[] = {"y", "dx", "dw"};
  return fmt::format("{}: {}{}{} of x {}, w {} in {}{}", convolution.name, kResults[static_cast<int>(asked.result)],
                     asked.has_bias ? " with bias" : "", asked.has_relu ? " and relu" : "", to_string(asked.x),
                     to_string(asked.w), name_of(asked.dtype), asked.math == MathMode::tf32 ? " as tf32" : "");
}

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  DiskCache cache() { return DiskCache(posix_file_system(), directory_ / "cache", 1 << 20); }
  std::vector<std::string> files() {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "cache")) found.push_back(entry.path());
    return found;
  }
  test::TemporaryDirectory directory_;
  DiskCache no_cache_{posix_file_system(), "", 0};
};
INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, ::testing::ValuesIn(kGpus),
                         [](const auto& info) { return std::string(info.param.name).substr(7, 4); });

TEST_P(CudnnPlans, ExistForEveryConvolution) {
  const std::string device = GetParam().description();
  int asked = 0;
  for (const test::Convolution& convolution : all_convolutions()) {
    std::string with_bias;
    for (const Convolution& question : questions(convolution)) {
      ++asked;
      const GraphPlan plan = GraphPlan::find(question, device, no_cache_);
      ASSERT_TRUE(plan) << text_of(convolution, question) << ": " << plan.failure_reason();
      // With the same engine, a relu does not change the values that it keeps.
      if (question.has_relu) {
        EXPECT_EQ(plan.name(), with_bias) << text_of(convolution, question);
      }
      if (question.has_bias) with_bias = plan.name();
    }
  }
  fmt::print("{}: {} graphs asked for\n", GetParam().name, asked);
}

TEST_P(CudnnPlans, AreStoredForTheNextRun) {
  const std::string device = GetParam().description();
  DiskCache kept = cache();
  for (const Convolution& question : questions(test::same("", {32, 14, 14, 32}, {64, 3, 3, 32}))) {
    GraphPlan plan = GraphPlan::find(question, device, kept);
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan.was_stored());
    plan.store(kept);
    const GraphPlan loaded = GraphPlan::find(question, device, cache());
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(loaded.was_stored());
    EXPECT_EQ(loaded.workspace_bytes(), plan.workspace_bytes());
  }
  Gpu other = GetParam();
  other.multiprocessors -= 2;
  const Convolution question = questions(test::same("", {32, 14, 14, 32}, {64, 3, 3, 32})).front();
  EXPECT_FALSE(GraphPlan::find(question, other.description(), cache()).was_stored());
  for (const std::string& file : files()) {
    std::string bytes = test::read_text(file);
    bytes[bytes.size() / 2] ^= 1;
    test::write_text(file, bytes);
  }
  const GraphPlan anew = GraphPlan::find(question, device, cache());
  EXPECT_TRUE(anew);
  EXPECT_FALSE(anew.was_stored());
}

TEST_P(CudnnPlans, FallBackToTheNextPlan) {
  const std::string device = GetParam().description();
  const Convolution question = questions(test::same("", {32, 14, 14, 32}, {64, 3, 3, 32})).front();
  DiskCache kept = cache();
  std::set<std::string> names;
  GraphPlan plan = GraphPlan::find(question, device, kept);
  plan.store(kept);
  for (GraphPlan next = GraphPlan::find(question, device, kept); next; next.skip_plan()) {
    if (!next.was_stored()) names.insert(next.name());
  }
  EXPECT_GT(names.size(), 2u);
  EXPECT_TRUE(names.contains(plan.name())) << "after what was stored, all are tried";
}

// cuDNN compiles attention while it plans it, and loads the kernel, which needs a driver (driver.cpp).
TEST_P(CudnnPlans, AreCompiledForAttention) {
  using Result = AttentionGraph::Result;
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) GTEST_SKIP() << "there is no libcuda.so.1";
  // GPT-2 small, packed and unpacked; grouped queries, also with earlier keys; odd sizes.
  for (const AttentionGraph& attention :
       {AttentionGraph{Result::out, {8, 1024, 12, 64}, {8, 1024, 12, 64}, DType::bf16, 0.125, true, true},
        AttentionGraph{Result::out, {8, 1024, 12, 64}, {8, 1024, 12, 64}, DType::bf16, 0.125, true},
        AttentionGraph{Result::out, {2, 512, 8, 64}, {2, 512, 2, 64}, DType::bf16, 0.125, true, true},
        AttentionGraph{Result::out, {2, 512, 8, 128}, {2, 2048, 2, 128}, DType::f16, 0.125, true},
        AttentionGraph{Result::out, {1, 65, 1, 40}, {1, 133, 1, 40}, DType::bf16, 0.125, false}}) {
    for (const Result result : {Result::out, Result::out_and_logsumexp, Result::gradients}) {
      AttentionGraph question = attention;
      question.result = result;
      const GraphPlan plan = GraphPlan::find(question, GetParam().description(), no_cache_);
      EXPECT_TRUE(plan) << fmt::format("result {} of {} and {} in {}: {}", static_cast<int>(result),
                                       to_string(attention.query), to_string(attention.key), name_of(attention.dtype),
                                       plan.failure_reason());
    }
  }
}

// No version has a plan for heads of 100 features.
TEST(CudnnPlansTest, ReportWhyThereIsNone) {
  const DiskCache no_cache(posix_file_system(), "", 0);
  const AttentionGraph question{AttentionGraph::Result::out, {1, 8, 1, 100}, {1, 8, 1, 100}};
  const GraphPlan plan = GraphPlan::find(question, kGpus[2].description(), no_cache);
  EXPECT_FALSE(plan);
  EXPECT_NE(plan.failure_reason(), "");
  EXPECT_THROW(GraphPlan::find(question, "no device", no_cache), Error);
}

}  // namespace
}  // namespace giro::cuda
