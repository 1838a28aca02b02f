#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include <giro/callbacks/async_writer.h>
#include <giro/callbacks/jsonl_writer.h>
#include <giro/callbacks/logging_writer.h>
#include <giro/callbacks/metric_logger.h>
#include <giro/callbacks/multi_writer.h>
#include <giro/loop/loop.h>

#include "tests/callbacks/bar_output.h"
#include "tests/callbacks/recording_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_invalid;
using Lines = std::vector<std::string>;

HostArray digit_image() { return {std::vector<std::uint8_t>(12), {2, 2, 3}}; }

class LoggingWriterTest : public test::BarFile {};

TEST_F(LoggingWriterTest, WritesScalarsSortedWithSixDigits) {
  LoggingWriter writer({.out = file_});
  writer.write_scalars(0, {{"b", 0.15}, {"a", 3}});
  writer.write_scalars(7, {{"x", 1234567.0}, {"nan", -std::nan("")}});
  EXPECT_EQ(lines(), (Lines{"[0] a=3, b=0.15", "[7] nan=nan, x=1.23457e+06"}));
}

TEST_F(LoggingWriterTest, WritesALineForEachKind) {
  LoggingWriter writer({.out = file_, .collection = "train"});
  writer.write_images(4, {{"digit", digit_image()}});
  writer.write_texts(4, {{"note", "good"}});
  writer.write_hparams({{"rate", 1e-3}, {"nesterov", true}, {"model", "cnn"}});
  writer.write_histograms(4, {{"same", std::vector<float>{2, 2}}, {"none", std::vector<float>{}}});
  writer.close();
  writer.close();
  EXPECT_EQ(lines(), (Lines{"[4] collection=train Got images: {digit: (2, 2, 3)}.", "[4] collection=train note: good",
                            "[Hyperparameters] collection=train rate=0.001, nesterov=true, model=cnn",
                            "[4] collection=train Histogram for 'same' = {[1.5, 2.5]: 2}",
                            "[4] collection=train Histogram for 'none' = {}"}));
}

TEST_F(LoggingWriterTest, CountsInThirtyBucketsWithClosedLastBucket) {
  LoggingWriter writer({.out = file_});
  std::vector<std::int32_t> numbers;
  for (int i = 0; i <= 30; ++i) numbers.push_back(i);
  writer.write_histograms(0, {{"x", numbers}});
  const std::string line = only_line();
  EXPECT_TRUE(line.starts_with("[0] Histogram for 'x' = {[0, 1): 1, [1, 2): 1,")) << line;
  EXPECT_TRUE(line.ends_with("[28, 29): 1, [29, 30]: 2}")) << line;
}

TEST_F(LoggingWriterTest, RejectsInvalidInput) {
  LoggingWriter writer({.out = file_});
  expect_invalid({"LoggingWriter", "step is -1"}, [&] { writer.write_scalars(-1, {}); });
  expect_invalid({"LoggingWriter", "tag"}, [&] { writer.write_texts(0, {{"", "x"}}); });
  writer.close();
  expect_invalid({"LoggingWriter", "closed"}, [&] { writer.write_scalars(0, {}); });
  expect_invalid({"LoggingWriter", "null"}, [] { LoggingWriter({.out = nullptr}); });
}

class JsonlWriterTest : public testing::Test {
 protected:
  std::vector<nlohmann::json> objects(const std::string& path) const {
    std::vector<nlohmann::json> objects;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) objects.push_back(nlohmann::json::parse(line));
    return objects;
  }

  const test::TemporaryDirectory directory_;
};

TEST_F(JsonlWriterTest, WritesOneObjectPerLine) {
  const std::string path = directory_ / "metrics.jsonl";
  {
    JsonlWriter writer(path);
    writer.write_scalars(3, {{"loss", 0.1}, {"a\"b", INFINITY}});
    writer.write_texts(4, {{"note", "two\nlines"}});
    writer.write_hparams({{"rate", 1e-3}, {"nesterov", false}, {"model", "cnn"}});
    writer.write_images(5, {{"digit", digit_image()}});
    writer.write_histograms(6, {{"same", std::vector<float>{2, 2}}});
    writer.close();
    expect_invalid({"JsonlWriter", "closed"}, [&] { writer.write_scalars(0, {}); });
  }
  using nlohmann::json;
  EXPECT_EQ(objects(path),
            (std::vector<json>{{{"step", 3}, {"scalars", {{"loss", 0.1}, {"a\"b", nullptr}}}},
                               {{"step", 4}, {"texts", {{"note", "two\nlines"}}}},
                               {{"hparams", {{"rate", 1e-3}, {"nesterov", false}, {"model", "cnn"}}}},
                               {{"step", 5}, {"images", {{"digit", {{"dtype", "u8"}, {"shape", {2, 2, 3}}}}}}},
                               {{"step", 6}, {"histograms", {{"same", {{"edges", {1.5, 2.5}}, {"counts", {2}}}}}}}}));
  JsonlWriter(path, {.append = true}).write_scalars(7, {{"loss", 1}});
  EXPECT_EQ(objects(path).size(), 6u);
  JsonlWriter(path).write_scalars(8, {{"loss", 1}});
  EXPECT_EQ(objects(path).size(), 1u);
}

TEST(MultiWriter, ForwardsEverythingToAllWriters) {
  const auto a = std::make_shared<test::RecordingWriter>(), b = std::make_shared<test::RecordingWriter>();
  MultiWriter writer({a, b});
  writer.write_scalars(1, {{"x", 2}});
  writer.write_images(1, {});
  writer.write_histograms(1, {});
  writer.write_texts(1, {});
  writer.write_hparams({});
  writer.flush();
  writer.close();
  EXPECT_EQ(a->calls, (Lines{"scalars 1 x=2", "images 1", "histograms 1", "texts 1", "hparams", "flush", "close"}));
  EXPECT_EQ(b->calls, a->calls);
  EXPECT_THROW(writer.write_scalars(2, {{"fail", 1}}), std::runtime_error);
  EXPECT_EQ(b->calls.back(), "scalars 2 fail=1");
  expect_invalid({"MultiWriter", "null"}, [] { MultiWriter({nullptr}); });
}

TEST(AsyncWriter, WritesInOrderAndFlushJoins) {
  const auto inner = std::make_shared<test::RecordingWriter>();
  AsyncWriter writer(inner);
  Lines expected;
  for (int step = 0; step < 3'000; ++step) {  // more than the queue holds
    writer.write_scalars(step, {{"x", 1}});
    expected.push_back(fmt::format("scalars {} x=1", step));
  }
  writer.write_images(1, {});
  writer.write_histograms(1, {});
  writer.write_texts(1, {});
  writer.write_hparams({});
  writer.flush();
  expected.insert(expected.end(), {"images 1", "histograms 1", "texts 1", "hparams", "flush"});
  EXPECT_EQ(inner->calls, expected);
  writer.close();
  EXPECT_EQ(inner->calls.back(), "close");
}

TEST(AsyncWriter, ErrorIsThrownOnceByALaterCall) {
  const auto inner = std::make_shared<test::RecordingWriter>();
  AsyncWriter writer(inner);
  writer.write_scalars(0, {{"fail", 1}});
  EXPECT_THROW(writer.flush(), std::runtime_error);
  writer.write_scalars(1, {{"x", 1}});
  writer.flush();
  EXPECT_EQ(inner->calls, (Lines{"scalars 0 fail=1", "scalars 1 x=1", "flush"}));
  writer.write_scalars(2, {{"fail", 1}});
  EXPECT_THROW(writer.close(), std::runtime_error);
  EXPECT_EQ(inner->calls.back(), "close");
}

TEST(AsyncWriter, DestructorWritesWhatIsLeft) {
  const auto inner = std::make_shared<test::RecordingWriter>();
  {
    AsyncWriter writer(inner);
    for (int step = 0; step < 100; ++step) writer.write_scalars(step, {});
  }
  EXPECT_EQ(inner->calls.size(), 100u);
}

TEST(MetricLogger, WritesTheNumbersOfALoop) {
  const auto inner = std::make_shared<test::RecordingWriter>();
  const auto step = [](const Elapsed& elapsed) {
    return logs().add_metric("loss", elapsed.steps).add_output("y", HostArray(std::vector<float>{1, 2}));
  };
  EXPECT_EQ((Callback<int, int>(metric_logger(inner)).kind()), CallbackKind::observer);
  (void)loop(0, std::vector<int>(4), {{every(1), step}, {every(2), metric_logger(inner)}});
  EXPECT_EQ(inner->calls, (Lines{"scalars 0 metrics/loss=0", "scalars 2 metrics/loss=2", "flush"}));
  expect_invalid({"metric_logger", "null"}, [] { metric_logger(nullptr); });
}

}  // namespace
}  // namespace giro
