#include <giro/runtime/program/native_stream.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

TEST(NativeStream, HostFunctionRunsInStreamOrder) {
  const Stream stream(Device::cpu());
  unsigned char byte = 1, seen = 0;
  stream.fill(&byte, 2, 1);
  submit(stream, [&] { seen = byte; });
  stream.fill(&byte, 3, 1);
  EXPECT_EQ(seen, 2);
}

TEST(NativeStream, HostFunctionRunsAtEachReplay) {
  const Stream stream(Device::cpu());
  std::vector<int> order;
  const Graph graph = Graph::record(stream, [&] {
    submit(stream, [&] { order.push_back(1); });
    submit(stream, [&] { order.push_back(2); });
  });
  EXPECT_TRUE(order.empty());
  graph.replay(stream, 3);
  EXPECT_EQ(order, (std::vector{1, 2, 1, 2, 1, 2}));
}

TEST(NativeStream, HostFunctionExceptionsReachTheReplay) {
  const Stream stream(Device::cpu());
  const auto fails = [] { throw std::runtime_error("its own"); };
  EXPECT_THROW(submit(stream, fails), std::runtime_error);
  const Graph graph = Graph::record(stream, [&] { submit(stream, fails); });
  EXPECT_THROW(graph.replay(stream), std::runtime_error);
}

TEST(NativeStream, ErrorsNameTheCall) {
  const Stream stream(Device::cpu()), other(Device::cpu());
  test::expect_error(ErrorCode::device_mismatch, {"cuda_stream", "cpu", "submit"}, [&] { cuda_stream(stream); });
  test::expect_error(ErrorCode::invalid_argument, {"submit", "empty"}, [&] { submit(stream, nullptr); });
  bool ran = false;
  test::expect_error(ErrorCode::invalid_argument, {"submit", "another stream"},
                     [&] { Graph::record(stream, [&] { submit(other, [&] { ran = true; }); }); });
  EXPECT_FALSE(ran);
  submit(other, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(NativeStream, OnCuda) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  const Stream stream(discovery.best()), other(discovery.best());
  EXPECT_NE(cuda_stream(stream), nullptr);
  EXPECT_EQ(cuda_stream(stream), cuda_stream(Stream(stream)));
  EXPECT_NE(cuda_stream(stream), cuda_stream(other));
  test::expect_error(ErrorCode::device_mismatch, {"submit", "cuda:0", "cuda_stream"}, [&] { submit(stream, [] {}); });
  test::expect_error(ErrorCode::invalid_argument, {"cuda_stream", "another stream"},
                     [&] { Graph::record(stream, [&] { cuda_stream(other); }); });
}

}  // namespace
}  // namespace giro
