#include <giro/distributed/communicator.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include <giro/distributed/mesh.h>
#include <giro/distributed/world.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

const Device kCpu = Device::cpu();

TEST(Communicator, SingleProcessLeavesTensorsAndCopiesParts) {
  const Communicator alone;
  const Stream stream(kCpu);
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  std::array<float, 4> values{1, 2, 3, 4}, copy{}, reduced{};
  const Tensor tensor(values.data(), DType::f32, {2, 2}, kCpu);
  alone.all_reduce(tensor, Reduction::mean, stream);
  alone.broadcast(tensor, 0, stream);
  alone.barrier(stream);
  alone.all_gather(Tensor(copy.data(), DType::f32, {2, 2}, kCpu), tensor, stream);
  alone.split(3, 0).reduce_scatter(Tensor(reduced.data(), DType::f32, {2, 2}, kCpu), tensor, Reduction::sum, stream);
  EXPECT_EQ(values, (std::array<float, 4>{1, 2, 3, 4}));
  EXPECT_EQ(copy, values);
  EXPECT_EQ(reduced, values);
}

TEST(Communicator, ErrorsNameTheCallAndTheTensors) {
  const Communicator alone, of_gpu(Device::cuda(1));
  const Stream stream(kCpu);
  std::array<std::int32_t, 8> values{};
  const auto tensor = [&](DType dtype, Shape shape) { return Tensor(values.data(), dtype, shape, kCpu); };
  test::expect_error(ErrorCode::device_mismatch, {"all_reduce", "i32(2,) on cpu", "cuda:1"},
                     [&] { of_gpu.all_reduce(tensor(DType::i32, {2}), Reduction::sum, stream); });
  test::expect_error(ErrorCode::device_mismatch, {"barrier", "cpu", "cuda:1"}, [&] { of_gpu.barrier(stream); });
  test::expect_error(ErrorCode::invalid_argument, {"broadcast", "no memory"},
                     [&] { alone.broadcast(Tensor(), 0, stream); });
  test::expect_error(ErrorCode::dtype_mismatch, {"all_reduce", "mean", "i32"},
                     [&] { alone.all_reduce(tensor(DType::i32, {2}), Reduction::mean, stream); });
  test::expect_error(ErrorCode::dtype_mismatch, {"all_reduce", "sum", "bool"},
                     [&] { alone.all_reduce(tensor(DType::boolean, {2}), Reduction::sum, stream); });
  for (const int root : {-1, 1}) {
    test::expect_error(ErrorCode::invalid_argument, {"broadcast", "no rank " + std::to_string(root)},
                       [&] { alone.broadcast(tensor(DType::i32, {2}), root, stream); });
  }
  test::expect_error(ErrorCode::shape_mismatch, {"all_gather", "out is i32(3, 2)", "(2, 2)"}, [&] {
    alone.all_gather(tensor(DType::i32, {3, 2}), tensor(DType::i32, {2, 2}), stream);
  });
  test::expect_error(ErrorCode::dtype_mismatch, {"reduce_scatter", "in is i32", "out is f32"}, [&] {
    alone.reduce_scatter(tensor(DType::f32, {2}), tensor(DType::i32, {2}), Reduction::sum, stream);
  });
  const Tensor shifted(values.data() + 1, DType::i32, {2}, kCpu);
  test::expect_error(ErrorCode::invalid_argument, {"all_gather", "in overlaps out", "rank 0"},
                     [&] { alone.all_gather(tensor(DType::i32, {2}), shifted, stream); });
  test::expect_error(ErrorCode::invalid_argument, {"split", "-2"}, [&] { (void)alone.split(-2, 0); });
}

TEST(Communicator, EmptyTensorsQueueNoWork) {
  const Communicator alone;
  const Tensor none(nullptr, DType::f32, {0, 3}, kCpu);
  alone.all_reduce(none, Reduction::sum, Stream(kCpu));
  alone.all_gather(none, none, Stream(kCpu));
}

TEST(World, SingleProcess) {
  World world;
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_TRUE(world.is_primary());
  EXPECT_EQ(world.device(), discover_devices().best());
  EXPECT_EQ(world.communicator(world.device()).device(), world.device());
  EXPECT_EQ(Mesh(world, kCpu, {{"data", -1}}).axis("data").size(), 1);
  test::expect_error(ErrorCode::invalid_argument, {"World", "one already"}, [] { World second; });
}

TEST(World, MayBeFollowedByAnother) {
  { const World first; }
  const World second;
  test::expect_error(ErrorCode::invalid_argument, {"timeout", "0 s"}, [] { World({.timeout = 0}); });
}

}  // namespace
}  // namespace giro
