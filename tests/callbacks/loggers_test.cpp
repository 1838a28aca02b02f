#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/csv_logger.h>
#include <giro/callbacks/jsonl_logger.h>
#include <giro/callbacks/tensorboard.h>
#include <giro/kernels/nn/var.h>
#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

Elapsed logged_at(std::int64_t steps, double seconds = 0) {
  return {.steps = steps, .samples = 32 * steps, .date = 1000 + seconds, .date_start = 1000};
}

// An output that is not a number.
nn::Var image() {
  static std::vector<float> pixels(4);
  return nn::Var(Tensor(pixels.data(), DType::f32, {2, 2}, Device::cpu()), Stream(Device::cpu()));
}

TEST(CsvLogger, IsAnObserver) {
  const test::TemporaryDirectory dir;
  EXPECT_EQ((Callback<int, int>(csv_logger(dir / "a.csv")).kind()), CallbackKind::observer);
  EXPECT_EQ((Callback<int, int>(jsonl_logger(dir / "a.jsonl")).kind()), CallbackKind::observer);
}

// A run with entries that come and go, appear late, and have clashing names.
TEST(CsvLogger, WritesTheSameAsHistory) {
  const test::TemporaryDirectory dir;
  const auto step = [](const Elapsed& elapsed) {
    const double x = std::sin(static_cast<double>(elapsed.steps));
    Logs l;
    if (elapsed.steps != 3) l.add_metric("loss", x / 3);
    if (elapsed.steps >= 2) l.add_stateful_metric("accuracy", x * 1e-30);
    if (elapsed.steps >= 5) l.add_loss("loss", -x).add_metric("steps", x);
    if (elapsed.steps == 6) l = logs().add_metric("a,\"b\"", -std::nan("")).add_metric("d", -0.0);
    return l;
  };
  const auto result = loop(0, std::vector<int>(9), {{every(1), {step, csv_logger(dir / "x/y/log.csv")}}});
  const std::string text = test::read_text(dir / "x/y/log.csv");
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "steps,samples,time,loss,stateful_metrics.accuracy,losses.loss,metrics.steps,\"a,\"\"b\"\"\",d");
  EXPECT_EQ(text.find("-nan"), text.npos);
  result.history.write_csv(dir / "history.csv");
  const std::string expected = test::read_text(dir / "history.csv");
  EXPECT_EQ(text, expected);
}

TEST(CsvLogger, SameFileAsTheHistory) {
  const test::TemporaryDirectory dir;
  const auto step = [](const Elapsed& elapsed) {
    Logs l = logs().add_metric("loss", 1. / static_cast<double>(elapsed.steps + 3));
    if (elapsed.steps % 3 == 1) l.add_metric("loss_test", std::cos(static_cast<double>(elapsed.steps)));
    if (elapsed.steps >= 4) l.add_loss("loss_test", 7);
    return l;
  };
  const auto result = loop(0, std::vector<int>(10), {{every(1), {step, csv_logger(dir / "log.csv")}}});
  result.history.write_csv(dir / "history.csv");
  EXPECT_EQ(test::read_text(dir / "log.csv"), test::read_text(dir / "history.csv"));
}

TEST(CsvLogger, LateColumnIsEmptyInEarlierRecords) {
  const test::TemporaryDirectory dir;
  CsvLogger log = csv_logger(dir / "log.csv");
  log(logged_at(0), logs().add_metric("a", 1));
  log(logged_at(1), logs().add_metric("b", 2).add_metric("c", 0.5));
  log(logged_at(2), logs().add_output("image", image()));  // not a number, so not in the file
  log(logged_at(3), logs().add_metric("a", 4));
  log.on_end();
  EXPECT_EQ(test::read_text(dir / "log.csv"),
            "steps,samples,time,a,b,c\n"
            "0,0,0,1,,\n"
            "1,32,0,,2,0.5\n"
            "3,96,0,4,,\n");
}

TEST(CsvLogger, ReplacesOrContinuesBeforeRepeatedSteps) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  const auto log = [&](bool append, std::vector<std::int64_t> steps, const std::string& name) {
    CsvLogger logger = csv_logger(path, {.append = append});
    logger.on_start(logged_at(steps.front()));
    for (const std::int64_t step : steps) {
      logger(logged_at(step), logs().add_metric(name, static_cast<double>(step) / 4).add_metric("b", 1));
    }
    logger.on_end();
    return test::read_text(path);
  };
  EXPECT_EQ(log(true, {0, 1, 2}, "a"), "steps,samples,time,a,b\n0,0,0,0,1\n1,32,0,0.25,1\n2,64,0,0.5,1\n");
  EXPECT_EQ(log(true, {1, 2}, "a"), "steps,samples,time,a,b\n0,0,0,0,1\n1,32,0,0.25,1\n2,64,0,0.5,1\n");
  EXPECT_EQ(log(true, {2}, "c"), "steps,samples,time,a,b,c\n0,0,0,0,1,\n1,32,0,0.25,1,\n2,64,0,,1,0.5\n");
  // A crash left half a line.
  test::write_text(path, "steps,samples,time,a,b\n0,0,0,0,1\n1,32,0,0.2");
  EXPECT_EQ(log(true, {1}, "a"), "steps,samples,time,a,b\n0,0,0,0,1\n1,32,0,0.25,1\n");
  test::write_text(path, "");
  EXPECT_EQ(log(true, {1}, "a"), "steps,samples,time,a,b\n1,32,0,0.25,1\n");
  EXPECT_EQ(log(false, {0}, "c"), "steps,samples,time,c,b\n0,0,0,0,1\n");
}

TEST(Loggers, AppendingLoggerGoesBackWithTheLoop) {
  const test::TemporaryDirectory dir;
  const CsvLogger csv = csv_logger(dir / "log.csv", {.append = true});
  const JsonlLogger jsonl = jsonl_logger(dir / "log.jsonl", {.append = true});
  const auto step = [](const Elapsed& e) { return logs().add_metric("a", static_cast<double>(e.steps)); };
  for (const std::int64_t first : {0, 2}) {
    (void)loop(0, std::vector<int>(4), {{every(1), {step, csv, jsonl}}}, {.elapsed = {.steps = first}});
  }
  const auto lines = [&](const std::string& name) {
    const std::string text = test::read_text(dir / name);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("log.csv"), 1 + 6);
  EXPECT_EQ(lines("log.jsonl"), 6);
}

TEST(CsvLogger, FailedColumnWidensNoRow) {
  const test::TemporaryDirectory dir;
  std::size_t fail_at = 0;
  for (const bool fails : {false, true}) {
    const auto files = std::make_shared<test::FaultyFileSystem>(fail_at);
    CsvLogger log = csv_logger(dir / "log.csv", {.flush_interval = 0, .files = files});
    log(logged_at(0), logs().add_metric("a", 1));
    fail_at = files->calls.size() + 1;
    if (!fails) continue;
    EXPECT_THROW(log(logged_at(1), logs().add_metric("a", 2).add_metric("b", 3)), Error);
    log(logged_at(2), logs().add_metric("a", 4));
    log.on_end();
    EXPECT_EQ(test::read_text(dir / "log.csv"), "steps,samples,time,a,b\n0,0,0,1,\n2,64,0,4,\n");
  }
}

TEST(CsvLogger, ContinuesColumnsWithClashingNames) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  const auto entries = [](int step) { return logs().add_loss("x", step).add_metric("x", -step).add_metric("p,q", 2); };
  for (const int step : {0, 1}) {
    CsvLogger log = csv_logger(path, {.append = true});
    log(logged_at(step), entries(step));
    log.on_end();
  }
  EXPECT_EQ(test::read_text(path), "steps,samples,time,losses.x,x,\"p,q\"\n0,0,0,0,0,2\n1,32,0,1,-1,2\n");
}

// A column keeps its entry, whichever of the two a run logs, or logs first.
TEST(CsvLogger, ColumnKeepsItsEntry) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  const auto log = [&](int step, const Logs& logs) {
    CsvLogger logger = csv_logger(path, {.append = true});
    logger(logged_at(step), logs);
    logger.on_end();
  };
  log(0, logs().add_metric("loss", 1));
  log(1, logs().add_loss("loss", 2));
  log(2, logs().add_loss("loss", 3).add_metric("loss", 4));
  log(3, logs().add_metric("losses.loss", 5));
  EXPECT_EQ(
      test::read_text(path),
      "steps,samples,time,loss,losses.loss,metrics.losses.loss\n0,0,0,1,,\n1,32,0,,2,\n2,64,0,4,3,\n3,96,0,,,5\n");
}

TEST(CsvLogger, LineBreakInNameIsQuoted) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  for (const int step : {0, 1, 2}) {
    CsvLogger log = csv_logger(path, {.append = true});
    log(logged_at(step), logs().add_metric("two\nlines \"1\"", step).add_metric("cr\r\n", -step));
    if (step == 2) log(logged_at(3), logs().add_metric("late\n", 7));
    log.on_end();
  }
  EXPECT_EQ(test::read_text(path),
            "steps,samples,time,\"two\nlines \"\"1\"\"\",\"cr\r\n\",\"late\n\"\n"
            "0,0,0,0,0,\n1,32,0,1,-1,\n2,64,0,2,-2,\n3,96,0,,,7\n");
  const std::string torn = "steps,samples,time,\"two\nlines\n0,0,0,1\n";
  test::write_text(path, torn);
  expect_error(ErrorCode::corrupt_data, {path, "quote"},
               [&] { csv_logger(path, {.append = true}).on_start(logged_at(5)); });
  EXPECT_EQ(test::read_text(path), torn);
}

TEST(CsvLogger, AppendsToLinesThatEndInCrLf) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  test::write_text(path, "steps,samples,time,a,b\r\n0,0,0,1,2\r\n");
  CsvLogger log = csv_logger(path, {.append = true});
  log(logged_at(1), logs().add_metric("b", 4).add_metric("a", 3));
  log.on_end();
  EXPECT_EQ(test::read_text(path), "steps,samples,time,a,b\n0,0,0,1,2\n1,32,0,3,4\n");
}

TEST(CsvLogger, RejectsAppendingToAnotherFormat) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.csv";
  for (const char* text : {"name,value\n", "steps,samples,time,a\nx,1,2,3\n", "steps,samples,time,a\n1;1;2;3\n"}) {
    test::write_text(path, text);
    expect_error(ErrorCode::corrupt_data, {path, "expected"},
                 [&] { csv_logger(path, {.append = true}).on_start(logged_at(5)); });
    EXPECT_EQ(test::read_text(path), text);
  }
}

TEST(CsvLogger, FlushesAfterTheInterval) {
  const test::TemporaryDirectory dir;
  CsvLogger log = csv_logger(dir / "log.csv", {.flush_interval = 5});
  const Logs a = logs().add_metric("a", 1);
  const auto lines = [&] {
    const std::string text = test::read_text(dir / "log.csv");
    return std::count(text.begin(), text.end(), '\n');
  };
  log(logged_at(0, 0), a);
  const auto first = lines();
  log(logged_at(1, 4.9), a);
  EXPECT_EQ(lines(), first);
  log(logged_at(2, 5), a);
  EXPECT_EQ(lines(), 4);
  log(logged_at(3, 9.9), a);
  EXPECT_EQ(lines(), 4);
  log(logged_at(4, 3), a);  // the clock was set back
  EXPECT_EQ(lines(), 6);
  log(logged_at(5, 3), a);
  log.on_end();
  EXPECT_EQ(lines(), 7);
}

TEST(CsvLogger, WritesManyLinesBeforeTheInterval) {
  const test::TemporaryDirectory dir;
  CsvLogger log = csv_logger(dir / "log.csv", {.flush_interval = 1e9});
  for (int step = 0; step < 10'000; ++step) log(logged_at(step), logs().add_metric("a", 0.125));
  EXPECT_GT(std::filesystem::file_size(dir / "log.csv"), 100'000u);
}

TEST(CsvLogger, LastCopyWritesWhatWasLogged) {
  const test::TemporaryDirectory dir;
  {
    const CsvLogger log = csv_logger(dir / "log.csv");
    CsvLogger copy = log;
    copy(logged_at(0), logs().add_metric("a", 1));
    copy(logged_at(1), logs().add_metric("a", 2));
  }
  EXPECT_EQ(test::read_text(dir / "log.csv"), "steps,samples,time,a\n0,0,0,1\n1,32,0,2\n");
}

// Whichever call fails, the loop reports it and names the logger, and the complete lines of the file are right.
TEST(CsvLogger, ReportsFailureOfEveryCall) {
  const auto step = [](const Elapsed& elapsed) {
    return elapsed.steps == 0 ? logs().add_metric("a", 1) : logs().add_metric("a", 1).add_metric("b", 2);
  };
  std::size_t call = 1;
  for (bool done = false; !done; ++call) {
    ASSERT_LT(call, 40u);
    const test::TemporaryDirectory dir;
    const std::string path = dir / "log.csv";
    test::write_text(path, "steps,samples,time,a\n0,0,0,7\n9,0,0,7\n");
    const auto files = std::make_shared<test::FaultyFileSystem>(call);
    const auto run = [&] {
      (void)loop(0, std::vector<int>(3), {{every(1), {step, csv_logger(path, {.append = true, .files = files})}}},
                 {.elapsed = {.steps = 1}});
    };
    try {
      run();
      done = files->calls.size() < call;
      EXPECT_TRUE(done) << "the fault at call " << call << " was lost";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(std::string(error.what()).find("injected"), std::string::npos) << error.what();
    }
    const std::string text = test::read_text(path);
    EXPECT_TRUE(text.starts_with("steps,samples,time,a\n0,0,0,7\n") ||
                text.starts_with("steps,samples,time,a,b\n0,0,0,7,\n"))
        << "call " << call << ": " << text;
  }
  EXPECT_GT(call, 12u);
}

// The lines would be lost without a word.
TEST(Loggers, RemovedFileIsAnError) {
  using Make = std::function<Callback<int, int>(const std::string& dir)>;
  const std::pair<const char*, Make> loggers[] = {
      {"log.csv", [](const std::string& dir) { return csv_logger(dir + "/log.csv"); }},
      {"log.jsonl", [](const std::string& dir) { return jsonl_logger(dir + "/log.jsonl"); }},
      {"events.out", [](const std::string& dir) { return tensorboard(dir); }}};
  for (const auto& [name, make] : loggers) {
    const test::TemporaryDirectory dir;
    const auto log = [](const Elapsed&) { return logs().add_metric("a", 1); };
    const auto remove = [&](const Elapsed& elapsed) {
      if (elapsed.steps != 2) return;
      for (const std::string& file : posix_file_system()->list(dir.path())) {
        if (!file.starts_with(".")) posix_file_system()->remove(dir / file);
      }
    };
    expect_error(ErrorCode::io, {dir / name, "removed or replaced"}, [&, &make = make] {
      (void)loop(0, std::vector<int>(5), {{every(1), log}, {every(1), make(dir.path())}, {every(1), remove}});
    });
  }
}

TEST(Loggers, RejectBadOptions) {
  expect_invalid({"name is empty"}, [] { csv_logger(""); });
  expect_invalid({"a.jsonl", "flush_interval is -1"}, [] { jsonl_logger("a.jsonl", {.flush_interval = -1}); });
}

TEST(JsonlLogger, WritesOneObjectPerLine) {
  const test::TemporaryDirectory dir;
  JsonlLogger log = jsonl_logger(dir / "a/log.jsonl");
  log(logged_at(3, 0.5), logs().add_metric("loss", 0.1).add_loss("kl", 2).add_metric("x\"\n", -0.0));
  log(logged_at(4), logs().add_output("y", image()));
  log(logged_at(5), logs()
                        .add_metric("nan", std::nan(""))
                        .add_metric("inf", std::numeric_limits<double>::infinity())
                        .add_metric("minus", -std::numeric_limits<double>::infinity()));
  log.on_end();
  EXPECT_EQ(test::read_text(dir / "a/log.jsonl"),
            R"({"elapsed":{"steps":3,"samples":96,"date":1000.5,"date_start":1000,"time":0.5},)"
            R"("metrics":{"loss":0.1,"x\"\n":-0.0},"losses":{"kl":2}})"
            "\n"
            R"({"elapsed":{"steps":5,"samples":160,"date":1000,"date_start":1000,"time":0},)"
            R"("metrics":{"nan":null,"inf":null,"minus":null}})"
            "\n");
}

TEST(JsonlLogger, KeepsEveryBit) {
  const test::TemporaryDirectory dir;
  const auto step = [](const Elapsed& elapsed) {
    return logs().add_metric("x", std::exp(static_cast<double>(elapsed.steps * 7 - 100)) / 3);
  };
  const auto result = loop(0, std::vector<int>(30), {{every(1), {step, jsonl_logger(dir / "log.jsonl")}}});
  const auto [steps, dates, values] = result.history.collect("steps", "date", "x");
  std::istringstream lines(test::read_text(dir / "log.jsonl"));
  std::size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    const auto record = nlohmann::json::parse(line);
    ASSERT_LT(i, values.size());
    EXPECT_EQ(record["elapsed"]["steps"].get<double>(), steps[i]);
    EXPECT_EQ(record["elapsed"]["date"].get<double>(), dates[i]);
    EXPECT_EQ(record["metrics"]["x"].get<double>(), values[i]);
  }
  EXPECT_EQ(i, 30u);
}

TEST(JsonlLogger, ContinuesBeforeRepeatedSteps) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "log.jsonl";
  const auto log = [&](std::vector<std::int64_t> steps) {
    JsonlLogger logger = jsonl_logger(path, {.append = true});
    for (const std::int64_t step : steps) logger(logged_at(step), logs().add_metric("a", static_cast<double>(step)));
    logger.on_end();
    std::vector<int> found;
    std::istringstream lines(test::read_text(path));
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line)["elapsed"]["steps"]);
    return found;
  };
  EXPECT_EQ(log({0, 1, 2}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(log({2, 3}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(log({1}), (std::vector<int>{0, 1}));
  test::write_text(path, test::read_text(path) + R"({"elapsed":{"steps":2)");
  EXPECT_EQ(log({2}), (std::vector<int>{0, 1, 2}));
  test::write_text(path, "{}\n");
  expect_error(ErrorCode::corrupt_data, {path, "elapsed"}, [&] { log({5}); });
}

}  // namespace
}  // namespace giro
