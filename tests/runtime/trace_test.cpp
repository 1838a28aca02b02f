#include <giro/runtime/files/trace.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/span.h>
#include <giro/runtime/stream.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"

namespace giro {
namespace {

using test::expect_error;
using test::lies_within;
using test::TraceFile;
using Args = std::map<std::string, std::int64_t>;

class TraceTest : public testing::Test {
 protected:
  TraceFile written(Trace& trace) const {
    trace.write(path_);
    return TraceFile(path_);
  }

  const test::TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/trace.json";
};

TEST_F(TraceTest, HoldsNestedSpans) {
  Trace trace;
  {
    const Span outer("test", "outer", "step", 7);
    for (int i = 0; i < 2; ++i) const Span inner("test", [] { return std::string("inner"); });
  }
  const TraceFile file = written(trace);
  ASSERT_EQ(file.spans.size(), 3u);
  const auto& outer = file.spans.front();
  EXPECT_EQ(outer.name, "outer");
  EXPECT_EQ(outer.category, "test");
  EXPECT_EQ(outer.track, "main thread");
  EXPECT_EQ(outer.args, (Args{{"step", 7}}));
  EXPECT_GE(outer.begin, 0);
  for (const auto& inner : file.named("inner")) EXPECT_TRUE(lies_within(inner, outer));
  EXPECT_LE(file.spans[1].end, file.spans[2].begin);
  EXPECT_EQ(file.other.at("spans"), 3);
  EXPECT_EQ(file.other.at("dropped"), 0);
  EXPECT_LE(outer.end, 1e3 * file.other.at("duration_us").get<double>() + 1);
}

TEST_F(TraceTest, EachThreadHasATrack) {
  Trace trace;
  const auto work = [] { const Span span("test", "work"); };
  work();
  std::thread(work).join();
  const TraceFile file = written(trace);
  ASSERT_EQ(file.spans.size(), 2u);
  EXPECT_EQ(file.spans[0].track, "main thread");
  EXPECT_EQ(file.spans[1].track.substr(0, 7), "thread ");
}

TEST_F(TraceTest, OmitsSpansThatCrossItsEnds) {
  std::optional<Span> before, after;
  before.emplace("test", "before");
  std::optional<Trace> trace(std::in_place);
  before.reset();
  after.emplace("test", "after");
  trace->stop();
  after.reset();
  { const Span late("test", "late"); }
  EXPECT_EQ(trace->num_spans(), 0);
  EXPECT_TRUE(written(*trace).spans.empty());

  // The next trace does not record it either.
  trace.emplace();
  after.emplace("test", "after");
  trace.emplace();  // ends the previous trace
  after.reset();
  trace->stop();
  EXPECT_EQ(trace->num_spans(), 0);
}

TEST_F(TraceTest, NamesAreFormattedOnlyWhenShown) {
  bool is_made = false;
  const auto name = [&] {
    is_made = true;
    return "name";
  };
  { const Span span("test", name); }
  EXPECT_FALSE(is_made);
  const Trace trace;
  { const Span span("test", name); }
  EXPECT_TRUE(is_made);
}

TEST_F(TraceTest, CountsDroppedSpans) {
  Trace trace(10'000);
  for (int i = 0; i < 1'000; ++i) const Span span("test", "same");
  for (int i = 0; i < 1'000; ++i) const Span span("test", [&] { return "another " + std::to_string(i); });
  trace.stop();
  EXPECT_GT(trace.num_spans(), 50);
  EXPECT_LT(trace.num_spans(), 300);
  EXPECT_EQ(trace.num_spans() + trace.num_dropped(), 2'000);
  const TraceFile file = written(trace);
  EXPECT_EQ(static_cast<std::int64_t>(file.spans.size()), trace.num_spans());
  EXPECT_EQ(file.other.at("dropped"), trace.num_dropped());
}

TEST_F(TraceTest, NamesMayHoldAnything) {
  Trace trace;
  { const Span span("te\"st", "a \\ \"quote\"\n\xff"); }
  const TraceFile file = written(trace);
  ASSERT_EQ(file.spans.size(), 1u);
  EXPECT_EQ(file.spans[0].name, "a \\ \"quote\"\n\xEF\xBF\xBD");
  EXPECT_EQ(file.spans[0].category, "te\"st");
}

TEST_F(TraceTest, OneAtATime) {
  std::optional<Trace> trace(std::in_place);
  expect_error(ErrorCode::invalid_argument, {"a trace is already running in this process", "one at a time"},
               [] { Trace second; });
  { const Span span("test", "still there"); }
  trace->stop();
  EXPECT_EQ(trace->num_spans(), 1);
  EXPECT_NO_THROW(Trace());  // the first one still exists, but has ended
  trace.emplace();
  trace.reset();
  EXPECT_NO_THROW(Trace());
}

TEST_F(TraceTest, FileIsWrittenCompletelyOrNotAtAll) {
  Trace trace;
  { const Span span("test", "span"); }
  expect_error(ErrorCode::io, {"/dev/full"}, [&] { trace.write("/dev/full/trace.json"); });
  test::FaultyFileSystem whole;
  trace.write(path_, whole);
  const std::vector<char> before = posix_file_system()->read(path_);
  for (std::size_t call = 1; call <= whole.calls.size(); ++call) {
    test::FaultyFileSystem files(call);
    try {
      trace.write(path_, files);
      ADD_FAILURE() << "no error where this fails: " << whole.calls[call - 1];
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
    }
    EXPECT_EQ(posix_file_system()->read(path_), before);
  }
}

TEST_F(TraceTest, RecordedOpsOnTheCpuAreNamed) {
  const Stream stream(Device::cpu());
  const Buffer a = Buffer::allocate(Device::cpu(), 64), b = Buffer::allocate(Device::cpu(), 64);
  const Graph graph = Graph::record(stream, [&] {
    stream.fill(a.data(), 1, 64);
    stream.copy(b.data(), a.data(), 64);
  });
  Trace trace;
  graph.replay(stream, 3);
  const TraceFile file = written(trace);
  ASSERT_EQ(file.spans.size(), 7u);
  EXPECT_EQ(file.spans[0].name, "replay");
  EXPECT_EQ(file.spans[0].args, (Args{{"times", 3}}));
  for (std::size_t i = 1; i < 7; ++i) {
    EXPECT_EQ(file.spans[i].name, i % 2 == 1 ? "fill" : "copy");
    EXPECT_EQ(file.spans[i].category, "op");
    EXPECT_TRUE(lies_within(file.spans[i], file.spans[0]));
  }
}

class TraceCuda : public TraceTest {
 protected:
  void SetUp() override {
    const Discovery discovery = discover_devices();
    if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  }
};

TEST_F(TraceCuda, LaunchesHaveTheirTimeOnTheDevice) {
  const Stream stream(Device::cuda()), other(Device::cuda());
  const Buffer memory = Buffer::allocate(Device::cuda(), 1 << 20);
  const Graph graph = Graph::record(stream, [&] { stream.fill(memory.data(), 1, memory.size()); });
  graph.replay(stream);  // before the trace
  Trace trace;
  graph.replay(stream, 5);
  stream.synchronize();
  graph.replay(other, 1'000);  // 7 launches of 128, then 64, 32 and 8
  const Graph within = Graph::record(stream, [&] { graph.replay(stream); });
  trace.stop();
  const TraceFile file = written(trace);
  std::vector<std::int64_t> times;
  std::int64_t latest = 0;
  for (const auto& launch : file.named("launch")) {
    EXPECT_EQ(launch.category, "device");
    EXPECT_GT(launch.end, launch.begin);
    if (launch.track != "cuda:0, stream 1") continue;
    EXPECT_GE(launch.begin, latest);
    latest = launch.end;
    times.push_back(launch.args.at("times"));
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(file.named("launch").size(), 2u + 7 + 3);
  EXPECT_EQ(file.named("wait for the stream").size(), 1u);
  EXPECT_LE(latest, 1e3 * file.other.at("duration_us").get<double>());
}

// More launches than the trace keeps events for.
TEST_F(TraceCuda, ManyLaunches) {
  const Stream stream(Device::cuda());
  const Buffer memory = Buffer::allocate(Device::cuda(), 64);
  const Graph graph = Graph::record(stream, [&] { stream.fill(memory.data(), 1, memory.size()); });
  Trace trace;
  for (int i = 0; i < 1'000; ++i) graph.replay(stream);
  const TraceFile file = written(trace);
  EXPECT_EQ(file.named("launch").size(), 1'000u);
  EXPECT_EQ(file.named("replay").size(), 1'000u);
}

}  // namespace
}  // namespace giro
