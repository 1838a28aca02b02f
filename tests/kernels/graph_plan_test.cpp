#if GIRO_WITH_CUDA
#include "kernels/cuda/graph_plan.h"

#include <string>
#include <utility>

#include "runtime/cuda/stream.h"
#include "tests/kernels/convolutions.h"
#include "tests/kernels/declined.h"
#include "tests/kernels/written.h"

namespace giro::cuda {
namespace {

class CandidatesTest : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Devices, CandidatesTest, ::testing::Values(Device::Kind::cuda), test::device_name);

// Of the plans that are suggested before the last one, some are not supported and some fail in another way.
TEST_P(CandidatesTest, ThatFailAreSkipped) {
  const test::Convolution conv = test::same("", {2, 5, 6, 3}, {4, 3, 3, 3});
  const Convolution spec{Convolution::Result::y, conv.x, conv.w, conv.y(), conv.options};
  test::Storage storage(stream());
  const Tensor x = storage.zeros(DType::f32, conv.x), w = storage.zeros(DType::f32, conv.w),
               y = storage.zeros(DType::f32, conv.y()), workspace = storage.zeros(DType::u8, {1 << 20});
  const GraphArrays arrays{{GraphArray::x, x.raw()}, {GraphArray::w, w.raw()}, {GraphArray::y, y.raw()}};
  const DiskCache no_cache(posix_file_system(), "", 0);
  const std::string gpu = describe_device(device().index());
  using cuda_on_cpu::Decline;
  for (const auto& [way, words] : {std::pair{Decline::to_build, "EXECUTION_FAILED"},
                                   {Decline::to_build_for_memory, "HOST_ALLOCATION_FAILED"},
                                   {Decline::to_tell_workspace, "WORKSPACE"},
                                   {Decline::to_run, "EXECUTION_FAILED"},
                                   {Decline::to_run_for_memory, "HOST_ALLOCATION_FAILED"}}) {
    SCOPED_TRACE(static_cast<int>(way));
    const test::Declined failing(way);
    if (!failing) GTEST_SKIP() << "plans fail on request in the emulation alone";
    GraphPlan plan = GraphPlan::find(spec, gpu, no_cache);
    while (plan && !plan.run(cuda::cuda_stream(stream()).cudnn(), arrays, workspace.raw())) plan.skip_plan();
    ASSERT_TRUE(plan) << plan.failure_reason();
    EXPECT_EQ(plan.workspace_bytes(), 0u) << "that of the last plan";
    EXPECT_NE(plan.failure_reason().find(words), std::string::npos) << plan.failure_reason();
    EXPECT_NE(plan.failure_reason().find("NOT_SUPPORTED"), std::string::npos) << plan.failure_reason();
  }
}

}  // namespace
}  // namespace giro::cuda
#endif
