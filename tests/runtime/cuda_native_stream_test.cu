#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <giro/runtime/buffer.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/native_stream.h>
#include <giro/runtime/tensor.h>

namespace giro {
namespace {

// The owner of the handle may launch at any time, so ops queued after it was taken are not held back.
TEST(NativeStreamCuda, OpsKeepOrderAfterTheHandleIsTaken) {
  const Stream stream(Device::cuda());
  const Buffer result = Buffer::allocate(stream.device(), 4);
  const Graph graph = Graph::record(stream, [&] {
    cudaStream_t handle = cuda_stream(stream);
    const Buffer temporary = stream.allocate(4);
    stream.fill(temporary.data(), 7, 4);
    ASSERT_EQ(cudaMemcpyAsync(result.data(), temporary.data(), 4, cudaMemcpyDeviceToDevice, handle), cudaSuccess);
    stream.fill(temporary.data(), 1, 4);
  });
  graph.replay(stream);
  const Tensor bytes(result.data(), DType::u8, {4}, stream.device());
  EXPECT_EQ(to_host<std::uint8_t>(bytes, stream), (std::vector<std::uint8_t>{7, 7, 7, 7}));
}

}  // namespace
}  // namespace giro
