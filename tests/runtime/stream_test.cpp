#include <giro/runtime/stream.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include <giro/runtime/program/graph.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

TEST(Stream, IsAHandle) {
  const Stream a(Device::cpu()), b(Device::cpu()), copy = a;
  EXPECT_EQ(a, copy);
  EXPECT_NE(a, b);
  EXPECT_EQ(a.device(), Device::cpu());
}

TEST(Stream, CopiesAndFillsInOrder) {
  const Stream stream(Device::cpu());
  std::string text = "....";
  stream.fill(text.data(), 'a', 4);
  stream.copy(text.data() + 1, "bc", 2);
  stream.fill(text.data() + 3, 'd', 1);
  stream.synchronize();
  EXPECT_EQ(text, "abcd");
}

TEST(Stream, ZeroBytesMayHaveNullPointers) {
  const Stream stream(Device::cpu());
  stream.copy(nullptr, nullptr, 0);
  stream.fill(nullptr, 0, 0);
  stream.synchronize();
}

TEST(Event, IsDoneOnceTheWorkBeforeItIs) {
  const Stream producer(Device::cpu()), consumer(Device::cpu());
  Event event(producer);
  EXPECT_TRUE(event.query()) << "nothing was marked yet";
  char value = 0, seen = 0;
  producer.fill(&value, 7, 1);
  event.record(producer);
  consumer.wait(event);
  consumer.copy(&seen, &value, 1);
  consumer.synchronize();
  EXPECT_EQ(seen, 7);
  const Event moved = std::move(event);
  moved.synchronize();
  EXPECT_TRUE(moved.query());
}

TEST(Stream, CannotBeSynchronizedWhileRecording) {
  const Stream stream(Device::cpu());
  EXPECT_FALSE(stream.is_recording());
  test::expect_error(ErrorCode::invalid_argument, {"record"}, [&] {
    Graph::record(stream, [&] {
      EXPECT_TRUE(stream.is_recording());
      stream.synchronize();
    });
  });
  EXPECT_FALSE(stream.is_recording());
  stream.synchronize();
}

}  // namespace
}  // namespace giro
