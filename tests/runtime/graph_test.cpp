#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/native_stream.h>
#include <giro/runtime/tensor.h>

#include "runtime/program/recording.h"
#include "tests/support/environment_setting.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitized.h"

namespace giro {
namespace {

using test::expect_error;

class GraphTest : public testing::Test {
 protected:
  GraphTest() { from_host<std::int32_t>(a_, {1, 2, 3}, stream_); }

  std::vector<std::int32_t> values(const Tensor& tensor) const { return to_host<std::int32_t>(tensor, stream_); }

  const Stream stream_{Device::cpu()};
  const Buffer storage_ = Buffer::allocate(Device::cpu(), 64);
  const Tensor a_{storage_.data(), DType::i32, {3}, Device::cpu()};
  const Tensor b_{static_cast<char*>(storage_.data()) + 32, DType::i32, {3}, Device::cpu()};
};

TEST_F(GraphTest, RecordingDoesNotExecuteAndReplayDoes) {
  from_host<std::int32_t>(b_, {7, 7, 7}, stream_);
  const Graph graph = Graph::record(stream_, [&] { copy(b_, a_, stream_); });
  EXPECT_EQ(values(b_), (std::vector{7, 7, 7}));
  EXPECT_EQ(graph.num_nodes(), 1u);
  graph.replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, ReplayReadsCurrentContents) {
  const Graph graph = Graph::record(stream_, [&] { copy(b_, a_, stream_); });
  for (const int value : {4, 5, 6}) {
    from_host<std::int32_t>(a_, {value, value, value}, stream_);
    graph.replay(stream_);
    EXPECT_EQ(values(b_), std::vector(3, value));
  }
}

TEST_F(GraphTest, ReplaysOnAnotherStream) {
  const Graph graph = Graph::record(stream_, [&] { copy(b_, a_, stream_); });
  const Stream other(Device::cpu());
  graph.replay(other);
  other.synchronize();
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, ReplayCanBeRecorded) {
  const Graph inner = Graph::record(stream_, [&] { copy(b_, a_, stream_); });
  const Graph outer = Graph::record(stream_, [&] {
    inner.replay(stream_);
    stream_.fill(a_.raw(), 0, a_.bytes());
  });
  EXPECT_EQ(values(a_), (std::vector{1, 2, 3}));
  outer.replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
  EXPECT_EQ(values(a_), (std::vector{0, 0, 0}));
}

TEST_F(GraphTest, TemporariesHaveTheirOwnMemory) {
  const Graph graph = Graph::record(stream_, [&] {
    const Buffer temporary = stream_.allocate(a_.bytes());
    stream_.copy(temporary.data(), a_.raw(), a_.bytes());
    stream_.copy(b_.raw(), temporary.data(), a_.bytes());
  });
  EXPECT_GE(graph.arena_bytes(), a_.bytes());
  // Memory that the stream hands out between replays never belongs to the graph.
  std::vector<Buffer> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(stream_.allocate(100'000));
    stream_.fill(others.back().data(), 0xff, 100'000);
    if (i == 50) from_host<std::int32_t>(a_, {8, 9, 10}, stream_);
    graph.replay(stream_);
    EXPECT_EQ(values(b_), values(a_));
  }
}

TEST_F(GraphTest, TemporariesWithDisjointLifetimesShareMemory) {
  constexpr std::size_t kBytes = 4 << 20;
  const auto bytes_with = [&](const char* setting) {
    const test::ArenaSetting arena(setting);
    const Graph graph = Graph::record(stream_, [&] {
      for (int i = 0; i < 10; ++i) {
        const Buffer temporary = stream_.allocate(kBytes);
        stream_.fill(temporary.place(), 0, kBytes);
      }
    });
    EXPECT_EQ(graph.num_nodes(), 10u);
    graph.replay(stream_);
    return graph.arena_bytes();
  };
  EXPECT_EQ(bytes_with("1"), kBytes);
  EXPECT_EQ(bytes_with("0"), 10 * kBytes);
}

TEST_F(GraphTest, RecordingsOfAStreamShareTheirMemory) {
  constexpr std::size_t kBytes = 4 << 20;
  const auto record = [&](std::size_t bytes) {
    return Graph::record(stream_, [&] {
      const Buffer temporary = stream_.allocate(bytes);
      stream_.fill(temporary.place(), 0, bytes);
    });
  };
  const test::ArenaSetting on("1");
  const Graph first = record(kBytes), second = record(kBytes / 2), third = record(kBytes);
  EXPECT_EQ(first.arena_bytes(), kBytes);
  EXPECT_EQ(third.arena_bytes(), kBytes);
  const test::ArenaSetting off("0");
  const Graph fourth = record(kBytes);
  EXPECT_EQ(fourth.arena_bytes(), kBytes) << "of its own";
  EXPECT_EQ(first.arena_bytes(), kBytes);
}

// As a step without logs after the one with logs.
TEST_F(GraphTest, RecordingThatNeedsALittleMoreSharesTheMemory) {
  const test::ArenaSetting on("1");
  const auto record = [&](std::size_t bytes) {
    return Graph::record(stream_, [&] { stream_.fill(stream_.allocate(bytes).place(), 0, bytes); });
  };
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{9} << 20, std::size_t{100} << 20}) {
    const Graph first = record(bytes + 256), second = record(bytes + 4096);
    EXPECT_EQ(first.arena_bytes(), second.arena_bytes());
    EXPECT_GE(first.arena_bytes(), bytes + 4096);
    EXPECT_LE(first.arena_bytes(), bytes + bytes / 32 + 256);
  }
}

#ifndef __SANITIZE_ADDRESS__
// Pages that nothing has written are not resident, neither while a step is traced nor afterwards.
TEST_F(GraphTest, TracedMemoryIsNeverResident) {
  const test::ArenaSetting on("1");
  const auto resident = [] {
    std::int64_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  constexpr std::size_t kBytes = 3 << 20, kTemporaries = 100;
  // A freed block of this size makes the C library take the next ones from the heap.
  ::operator delete(::operator new(std::size_t{30} << 20));
  const std::int64_t before = resident();
  std::int64_t traced = 0;
  const Graph graph = Graph::record(stream_, [&] {
    std::vector<Buffer> temporaries;
    for (std::size_t i = 0; i < kTemporaries; ++i) {
      temporaries.push_back(stream_.allocate(kBytes));
      stream_.fill(temporaries.back().place(), 0, kBytes);
    }
    traced = resident();
  });
  EXPECT_LT(traced - before, 10 * static_cast<std::int64_t>(kBytes));
  EXPECT_LT(resident() - before, 10 * static_cast<std::int64_t>(kBytes));
}
#endif

TEST_F(GraphTest, MemoryIsReleasedWithTheLastRecording) {
  constexpr std::size_t kBytes = 4 << 20;
  const test::ArenaSetting on("1");
  const auto record = [&](std::size_t bytes) {
    return Graph::record(stream_, [&] { stream_.fill(stream_.allocate(bytes).place(), 0, bytes); });
  };
  { const Graph large = record(2 * kBytes); }
  Graph small = record(kBytes);
  EXPECT_EQ(small.arena_bytes(), kBytes) << "the large one's is gone";
  const Graph other = record(kBytes);
  small = record(kBytes);
  EXPECT_EQ(small.arena_bytes(), kBytes) << "the other keeps it";
}

TEST_F(GraphTest, HeldTemporaryIsNotShared) {
  const test::ArenaSetting on("1");
  Buffer held;
  const Graph first = Graph::record(stream_, [&] {
    held = stream_.allocate(a_.bytes());
    stream_.copy(held.data(), a_.raw(), a_.bytes());
  });
  // Recorded twice, because memory that the first recording gives back is free for the second.
  const auto overwrite = [&] {
    for (int i = 0; i < 4; ++i) {
      const Buffer temporary = stream_.allocate(a_.bytes());
      EXPECT_NE(temporary.data(), held.data());
      stream_.fill(temporary.data(), 0xff, a_.bytes());
    }
  };
  const Graph second = Graph::record(stream_, overwrite), third = Graph::record(stream_, overwrite);
  first.replay(stream_);
  second.replay(stream_);
  third.replay(stream_);
  stream_.copy(b_.raw(), held.data(), b_.bytes());
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, UnusedTemporaryNeedsNoMemory) {
  const test::ArenaSetting on("1");
  const Graph graph = Graph::record(stream_, [&] { (void)stream_.allocate(4 << 20); });
  EXPECT_EQ(graph.arena_bytes(), 0u);
}

// A terabyte of them, since the work that uses them has not been planned.
TEST_F(GraphTest, TemporariesTakeNoMemoryWhileTheyAreRecorded) {
  const test::ArenaSetting on("1");
  const Graph graph = Graph::record(stream_, [&] {
    const Buffer large = stream_.allocate(std::size_t{1} << 40), small = stream_.allocate(a_.bytes());
    stream_.copy(small.place(), a_.raw(), a_.bytes());
    stream_.copy(b_.raw(), small.place(), a_.bytes());
  });
  graph.replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
  EXPECT_LE(graph.arena_bytes(), 1u << 18);
}

// More than any machine can address.
TEST_F(GraphTest, TemporaryWithoutMemoryLeavesTheOthers) {
  if (test::kSanitized) GTEST_SKIP() << "AddressSanitizer ends a process that asks for so much";
  const test::ArenaSetting on("1");
  const Graph graph = Graph::record(stream_, [&] {
    const Buffer large = stream_.allocate(std::size_t{1} << 55), small = stream_.allocate(a_.bytes());
    expect_error(ErrorCode::out_of_memory, {"36028797018963968"}, [&] { (void)large.data(); });
    stream_.copy(small.data(), a_.raw(), a_.bytes());
    stream_.copy(b_.raw(), small.data(), a_.bytes());
    expect_error(ErrorCode::out_of_memory, {"72057594037927937", "at most"},
                 [&] { (void)stream_.allocate((std::size_t{1} << 56) + 1); });
  });
  graph.replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
}

// An address stays true: for what is recorded with it later, under the name too, and after the buffer is gone.
TEST_F(GraphTest, TemporaryThatIsAskedForItsAddressKeepsIt) {
  for (const char* setting : {"0", "1"}) {
    const test::ArenaSetting arena(setting);
    Tensor copied, released;
    std::vector<std::int32_t> seen;
    const Graph graph = Graph::record(stream_, [&] {
      auto buffer = std::make_shared<const Buffer>(stream_.allocate(a_.bytes()));
      copied = Tensor(buffer, DType::i32, {3});
      copy(copied, a_, stream_);
      void* const address = buffer->data();
      EXPECT_EQ(copied.raw(), address);
      EXPECT_NE(copied.place(), address);
      stream_.copy(b_.raw(), address, a_.bytes());
      stream_.fill(address, 0, sizeof(std::int32_t));
      buffer = nullptr;
      released = Tensor(std::make_shared<const Buffer>(stream_.allocate(8)), DType::i32, {2});
    });
    graph.replay(stream_);
    EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
    EXPECT_EQ(to_host<std::int32_t>(copied, stream_), (std::vector{0, 2, 3}));
    // In another recording it is what this one left.
    const Graph other = Graph::record(stream_, [&] { copy(b_, copied, stream_); });
    other.replay(stream_);
    EXPECT_EQ(values(b_), (std::vector{0, 2, 3}));
    expect_error(ErrorCode::invalid_argument, {"released with the last nn::Var"}, [&] { (void)released.raw(); });
  }
}

TEST_F(GraphTest, OtherWorkSeesEarlierResults) {
  for (const char* setting : {"0", "1"}) {
    const test::ArenaSetting arena(setting);
    std::vector<std::int32_t> seen;
    Buffer second;
    const Graph graph = Graph::record(stream_, [&] {
      const Buffer first = stream_.allocate(a_.bytes());
      stream_.copy(first.data(), a_.raw(), a_.bytes());
      second = stream_.allocate(a_.bytes());
      const auto* const data = static_cast<const std::int32_t*>(first.data());
      submit(stream_, [&seen, data] { seen.assign(data, data + 3); });
      stream_.copy(second.data(), first.data(), a_.bytes());  // after the function, into other memory
      stream_.fill(first.data(), 0xff, a_.bytes());
      stream_.copy(b_.raw(), second.data(), a_.bytes());
    });
    EXPECT_EQ(graph.num_nodes(), 5u);
    for (int i = 0; i < 3; ++i) {
      from_host<std::int32_t>(a_, {i, 2, 3}, stream_);
      graph.replay(stream_);
      EXPECT_EQ(seen, (std::vector{i, 2, 3}));
      EXPECT_EQ(values(b_), (std::vector{i, 2, 3}));
    }
  }
}

TEST_F(GraphTest, KeepsItsMemoryWhenTheOthersAndTheStreamAreGone) {
  const test::ArenaSetting on("1");
  std::optional<Graph> graph;
  {
    const Stream stream(Device::cpu());
    const auto body = [&] {
      const Buffer temporary = stream.allocate(a_.bytes());
      stream.copy(temporary.place(), a_.raw(), a_.bytes());
      stream.copy(b_.raw(), temporary.place(), a_.bytes());
    };
    const Graph other = Graph::record(stream, body);
    graph = Graph::record(stream, body);
  }
  const Buffer in_its_place = Buffer::allocate(Device::cpu(), 1 << 20);
  stream_.fill(in_its_place.data(), 0xff, in_its_place.size());
  graph->replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
  stream_.copy(b_.raw(), in_its_place.data(), b_.bytes());
  EXPECT_EQ(values(b_), std::vector(3, -1)) << "the graph wrote into memory that was given back";
}

TEST_F(GraphTest, TemporariesOfARecordingMayOutliveIt) {
  Buffer kept;
  {
    const Graph graph = Graph::record(stream_, [&] { kept = stream_.allocate(100); });
  }
  stream_.fill(kept.data(), 1, 100);
}

// The error has lost ops, so the recording fails even if its body catches the error.
TEST_F(GraphTest, ErrorOfADeferredOpIsRethrown) {
  const detail::Rewrite fails{
      [](std::vector<detail::HeldOp>&, detail::Values&) { throw std::runtime_error("rewrite"); }};
  const auto body = [&] {
    copy(b_, a_, stream_);
    EXPECT_THROW(submit(stream_, [] {}), std::runtime_error);
  };
  EXPECT_THROW(detail::Recording::record(stream_, body, {}, fails), std::runtime_error);
  EXPECT_FALSE(stream_.is_recording());
}

TEST_F(GraphTest, ExceptionDropsTheRecordingAndLeavesTheStreamUsable) {
  EXPECT_THROW(Graph::record(stream_,
                             [&] {
                               stream_.fill(a_.raw(), 0, a_.bytes());
                               throw std::runtime_error("body");
                             }),
               std::runtime_error);
  EXPECT_FALSE(stream_.is_recording());
  EXPECT_EQ(values(a_), (std::vector{1, 2, 3}));
  copy(b_, a_, stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
  const Graph graph = Graph::record(stream_, [&] { stream_.fill(b_.raw(), 0, b_.bytes()); });
  EXPECT_EQ(graph.num_nodes(), 1u) << "nothing is left of the dropped one";
}

TEST_F(GraphTest, RecordingsDoNotNest) {
  expect_error(ErrorCode::invalid_argument, {"recording"},
               [&] { Graph::record(stream_, [&] { Graph::record(stream_, [] {}); }); });
  EXPECT_FALSE(stream_.is_recording());
  Graph::record(stream_, [&] { copy(b_, a_, stream_); }).replay(stream_);
  EXPECT_EQ(values(b_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, ReadingOnTheHostWhileRecordingIsAnError) {
  expect_error(ErrorCode::invalid_argument, {"record"}, [&] { Graph::record(stream_, [&] { values(a_); }); });
  EXPECT_EQ(values(a_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, WritingFromTheHostWhileRecordingIsAnError) {
  expect_error(ErrorCode::invalid_argument, {"record"}, [&] {
    Graph::record(stream_, [&] { from_host<std::int32_t>(a_, {4, 5, 6}, stream_); });
  });
  EXPECT_EQ(values(a_), (std::vector{1, 2, 3}));
}

TEST_F(GraphTest, EmptyGraphReplaysNothing) {
  Graph graph = Graph::record(stream_, [] {});
  const Graph moved = std::move(graph);
  EXPECT_EQ(moved.num_nodes(), 0u);
  moved.replay(stream_);
}

}  // namespace
}  // namespace giro
