// Tests that with GIRO_ARENA=0 the memory checks see where a temporary ends, how long it lives and what it holds.

#include <gtest/gtest.h>

#include <cstddef>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/error.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "tests/support/environment_setting.h"

namespace giro {
namespace {

constexpr std::size_t kBytes = 100;

TEST(TemporariesCuda, AreBoundedByTheirSize) {
  const test::ArenaSetting off("0");
  const Stream stream(Device::cuda());
  const Buffer temporary = stream.allocate(kBytes);
  EXPECT_THROW(stream.fill(temporary.data(), 0, kBytes + 1), Error);
  stream.fill(temporary.data(), 0, kBytes);
  stream.synchronize();
  EXPECT_THROW(Graph::record(stream,
                             [&] {
                               const Buffer recorded = stream.allocate(kBytes);
                               stream.fill(recorded.data(), 0, kBytes + 1);
                             }),
               Error);
}

TEST(TemporariesCuda, AreNotUsedAfterRelease) {
  const test::ArenaSetting off("0");
  const Stream stream(Device::cuda());
  void* data;
  {
    const Buffer temporary = stream.allocate(kBytes);
    data = temporary.data();
    stream.fill(data, 0, kBytes);
  }
  EXPECT_THROW(stream.fill(data, 0, kBytes), Error);
  stream.synchronize();
}

// The recording reads a temporary that nothing has written.
TEST(TemporariesCuda, HoldNoOldData) {
  const auto first_byte_of_the_second = [](const char* setting) {
    const test::ArenaSetting arena(setting);
    const Stream stream(Device::cuda());
    unsigned char host = 0;
    const Buffer result = Buffer::allocate(Device::cuda(), 1);
    const Graph graph = Graph::record(stream, [&] {
      stream.fill(stream.allocate(kBytes).place(), 7, kBytes);
      stream.copy(result.data(), stream.allocate(kBytes).place(), 1);
    });
    graph.replay(stream);
    stream.copy(&host, result.data(), 1);
    stream.synchronize();
    return host;
  };
  EXPECT_EQ(first_byte_of_the_second("1"), 7) << "the arena's doing";
  EXPECT_EQ(first_byte_of_the_second("0"), 0xff) << "as fresh as from cudaMalloc";
}

}  // namespace
}  // namespace giro
