// Streams, events and graphs on a GPU, where nothing is certain to have run until it has been waited for.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "tests/support/cuda_test.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

class CudaStreamTest : public test::CudaTest {
 protected:
  static constexpr std::size_t kBytes = 1 << 20;

  void prepare(Device device) override {
    for (auto* stream : {&a_, &b_}) stream->emplace(device);
    for (Buffer* buffer : {&x_, &y_}) *buffer = Buffer::allocate(device, kBytes);
    seen_ = Buffer::allocate(device, kBytes, MemoryKind::pinned);
    for (Buffer* buffer : {&x_, &y_, &seen_}) a_->fill(buffer->data(), 0, kBytes);
    a_->synchronize();
  }

  void fill(const Buffer& buffer, unsigned char value, const Stream& stream) {
    stream.fill(buffer.data(), value, kBytes);
  }
  void copy(const Buffer& to, const Buffer& from, const Stream& stream) { stream.copy(to.data(), from.data(), kBytes); }
  // The present value of the last byte copied to pinned memory.
  int seen() const { return static_cast<const volatile unsigned char*>(seen_.data())[kBytes - 1]; }

  std::optional<Stream> a_, b_;
  Buffer x_, y_, seen_;
};

TEST_F(CudaStreamTest, SynchronizeWaitsForTheWork) {
  for (const Stream& stream : {*a_, *b_}) {
    fill(x_, 1, stream);
    copy(seen_, x_, stream);
    stream.synchronize();
    EXPECT_EQ(seen(), 1);
    fill(x_, 0, stream);
    copy(seen_, x_, stream);
    stream.synchronize();
    EXPECT_EQ(seen(), 0);
  }
}

TEST_F(CudaStreamTest, EventOrdersStreams) {
  Event event(*a_);
  for (const int value : {1, 2, 3}) {
    fill(x_, static_cast<unsigned char>(value), *a_);
    event.record(*a_);
    b_->wait(event);
    copy(seen_, x_, *b_);
    event.record(*b_);
    a_->wait(event);
    b_->synchronize();
    EXPECT_EQ(seen(), value);
  }
  a_->synchronize();
}

TEST_F(CudaStreamTest, HostWaitsForAnEvent) {
  Event event(*a_);
  EXPECT_TRUE(event.query()) << "nothing was marked yet";
  fill(x_, 1, *a_);
  copy(seen_, x_, *a_);
  event.record(*a_);
  event.synchronize();
  EXPECT_EQ(seen(), 1);
  EXPECT_TRUE(event.query());
}

TEST_F(CudaStreamTest, QueryReportsCompletion) {
  Event event(*a_);
  for (const int value : {1, 2, 3}) {
    fill(x_, static_cast<unsigned char>(value), *a_);
    copy(seen_, x_, *a_);
    event.record(*a_);
    while (!event.query()) {
    }
    EXPECT_EQ(seen(), value);
  }
  a_->synchronize();
}

TEST_F(CudaStreamTest, PageableMemoryIsReusableOnceTheCallReturns) {
  std::vector<unsigned char> host(kBytes, 1);
  a_->copy(x_.data(), host.data(), kBytes);
  host.assign(kBytes, 2);
  copy(seen_, x_, *a_);
  a_->synchronize();
  EXPECT_EQ(seen(), 1);

  fill(x_, 3, *a_);
  a_->copy(host.data(), x_.data(), kBytes);
  EXPECT_EQ(host.back(), 3);
}

TEST_F(CudaStreamTest, GraphRunsInOrderOfItsReplayStream) {
  const Graph graph = Graph::record(*a_, [&] {
    copy(y_, x_, *a_);
    fill(x_, 9, *a_);
  });
  EXPECT_EQ(graph.num_nodes(), 2u);
  for (const Stream& stream : {*b_, *a_}) {
    fill(x_, 4, stream);
    graph.replay(stream);
    copy(seen_, y_, stream);
    stream.synchronize();
    EXPECT_EQ(seen(), 4);
    copy(seen_, x_, stream);
    stream.synchronize();
    EXPECT_EQ(seen(), 9);
  }
}

TEST_F(CudaStreamTest, RecordingForksAndJoins) {
  Event forked(*a_), joined(*a_);
  const Graph graph = Graph::record(*a_, [&] {
    fill(x_, 5, *a_);
    forked.record(*a_);
    b_->wait(forked);
    copy(y_, x_, *b_);
    joined.record(*b_);
    a_->wait(joined);
    copy(seen_, y_, *a_);
  });
  EXPECT_EQ(graph.num_nodes(), 3u);
  EXPECT_EQ(seen(), 0);
  graph.replay(*a_);
  a_->synchronize();
  EXPECT_EQ(seen(), 5);
}

TEST_F(CudaStreamTest, UnjoinedForkIsAnError) {
  Event forked(*a_);
  test::expect_error(ErrorCode::device, {"cudaStreamEndCapture", "cudaErrorStreamCaptureUnjoined"}, [&] {
    Graph::record(*a_, [&] {
      fill(x_, 5, *a_);
      forked.record(*a_);
      b_->wait(forked);
      copy(y_, x_, *b_);
    });
  });
  for (const Stream& stream : {*a_, *b_}) {
    fill(x_, 6, stream);
    copy(seen_, x_, stream);
    stream.synchronize();
    EXPECT_EQ(seen(), 6);
  }
}

TEST_F(CudaStreamTest, RecordingRejectsPageableMemory) {
  std::vector<unsigned char> host(kBytes, 1);
  test::expect_error(ErrorCode::unsupported, {"pinned"},
                     [&] { Graph::record(*a_, [&] { a_->copy(x_.data(), host.data(), kBytes); }); });
}

}  // namespace
}  // namespace giro
