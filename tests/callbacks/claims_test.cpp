// A run claims every file and directory that it writes before it changes anything.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/csv_logger.h>
#include <giro/callbacks/jsonl_logger.h>
#include <giro/callbacks/jsonl_writer.h>
#include <giro/callbacks/tensorboard.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/loop.h>
#include <giro/runtime/state.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error, test::expect_invalid, test::read_text;

using RunTask = Task<State, int>;

State claims_state() {
  State state(Device::cpu());
  state.add("step", {{"", DType::i64, {}}});
  return state;
}

Logs log_step(State& state) {
  ++*state.at("step").data<std::int64_t>();
  return logs().add_metric("a", 1);
}

// Content and time of every file below a directory, except locks.
std::map<std::string, std::pair<std::string, std::filesystem::file_time_type>> all_files(const std::string& dir) {
  std::map<std::string, std::pair<std::string, std::filesystem::file_time_type>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".lock") continue;
    files[entry.path().string()] = {read_text(entry.path().string()), entry.last_write_time()};
  }
  return files;
}

// The error that `f` throws in a child process.
std::string error_in_child(const std::function<void()>& f) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string message = "no error";
    try {
      f();
    } catch (const std::exception& error) {
      message = error.what();
    }
    const bool written = ::write(ends[1], message.data(), message.size()) == static_cast<ssize_t>(message.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string message;
  char buffer[512];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    message.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return message;
}

class Claims : public testing::Test {
 protected:
  // All callbacks that write, each with the name of its file or directory.
  std::vector<std::pair<std::string, std::function<RunTask()>>> writers() const {
    return {{"log.csv", [this] { return RunTask(every(1), csv_logger(dir_ / "log.csv", {.flush_interval = 0})); }},
            {"log.jsonl", [this] { return RunTask(every(1), jsonl_logger(dir_ / "log.jsonl")); }},
            {"board", [this] { return RunTask(every(1), tensorboard(dir_ / "board")); }},
            {"model", [this] { return RunTask(every(1), checkpoint(dir_ / "model", {.overwrite = true})); }}};
  }
  std::vector<RunTask> all_writers() const {
    std::vector<RunTask> tasks{{every(1), log_step}};
    for (const auto& [name, make] : writers()) tasks.push_back(make());
    return tasks;
  }

  const test::TemporaryDirectory dir_;
};

// For each file that the two runs share; the other files were left by an earlier run.
TEST_F(Claims, SecondProcessIsRejectedBeforeChangingAnything) {
  std::vector<int> data(9);
  (void)loop(claims_state(), data, all_writers(), {.stop = at(3)});
  for (const auto& [name, make] : writers()) {
    giro::Run first(claims_state(), data, std::vector<RunTask>{{every(1), log_step}, make()});
    first.advance(at(2));
    const auto before = all_files(dir_.path());
    ASSERT_GE(before.size(), 5u);
    const std::string error = error_in_child([&] { (void)loop(claims_state(), data, all_writers()); });
    EXPECT_NE(error.find(fmt::format("'{}' is being written by process {} on ", dir_ / name, ::getpid())), error.npos)
        << error;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    EXPECT_EQ(all_files(dir_.path()), before) << name;
    first.advance(at(4));
    (void)first.finish();
  }
  // All claims are released.
  EXPECT_EQ(loop(claims_state(), data, all_writers()).elapsed.steps, 9);
}

TEST_F(Claims, TwoLoopsOnOneFileAreAnError) {
  std::vector<int> data(9);
  for (const auto& [name, make] : writers()) {
    const std::vector<RunTask> one{{every(1), log_step}, make()}, other{{every(1), log_step}, make()};
    giro::Run first(claims_state(), data, one), second(claims_state(), data, other);
    first.advance(at(2));
    expect_invalid({dir_ / name, "is being written by process", "this one"}, [&] { second.advance(at(1)); });
    first.advance(at(5));
    (void)first.finish();
  }
  const std::string text = read_text(dir_ / "log.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 5) << text;
  const std::vector<RunTask> both{{every(1), log_step}, writers()[0].second(), writers()[0].second()};
  expect_invalid({dir_ / "log.csv"}, [&] { (void)loop(claims_state(), data, both); });
}

TEST_F(Claims, ConsecutiveLoopsShareAFile) {
  const CsvLogger kept = csv_logger(dir_ / "log.csv");  // like any other, holds the file only during its loops
  const auto run = [&](const CsvLogger& logger, std::int64_t first, std::int64_t steps) {
    (void)loop(claims_state(), std::vector<int>(static_cast<std::size_t>(steps)),
               {{every(1), log_step}, {every(1), logger}}, {.elapsed = {.steps = first, .samples = first}});
  };
  const auto steps_in_file = [&] {
    std::vector<int> steps;
    const std::string text = read_text(dir_ / "log.csv");
    for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1))
      steps.push_back(std::atoi(text.c_str() + at + 1));
    return steps;
  };
  run(kept, 0, 2);
  run(csv_logger(dir_ / "log.csv", {.append = true}), 2, 2);
  EXPECT_EQ(steps_in_file(), (std::vector<int>{0, 1, 2, 3}));
  run(kept, 0, 2);
  EXPECT_EQ(steps_in_file(), (std::vector<int>{0, 1, 2, 3, 0, 1}));
  run(kept, 5, 1);
  EXPECT_EQ(steps_in_file(), (std::vector<int>{0, 1, 2, 3, 0, 1, 5}));
  run(csv_logger(dir_ / "log.csv"), 7, 1);
  EXPECT_EQ(steps_in_file(), std::vector<int>{7});
}

TEST_F(Claims, NestedLoopWritesThroughACopy) {
  const CsvLogger log = csv_logger(dir_ / "log.csv");
  const auto evaluate = inner_loop([log](State& state) {
    return loop(std::move(state), std::vector<int>(2),
                {{every(1), [](const State&) { return logs().add_metric("b", 2); }}, {every(1), log}});
  });
  std::vector<int> data(4);
  giro::Run run(claims_state(), data,
                std::vector<RunTask>{{every(1), log_step}, {every(2), evaluate}, {every(1), log}});
  run.advance(at(3));
  // The end of the inner loop has not released the file.
  expect_invalid({"log.csv"}, [&] { csv_logger(dir_ / "log.csv").on_claim(); });
  (void)run.finish();
  const std::string text = read_text(dir_ / "log.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 3 + 4) << text;
}

TEST_F(Claims, DeadProcessHoldsNoLock) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    CsvLogger log = csv_logger(dir_ / "log.csv");
    log.on_claim();
    (void)!::write(ends[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  expect_invalid({fmt::format("'{}' is being written by process {}", dir_ / "log.csv", child)},
                 [&] { csv_logger(dir_ / "log.csv").on_claim(); });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  csv_logger(dir_ / "log.csv").on_claim();
}

TEST_F(Claims, UnlockableFileIsReportedAsDirectoryError) {
  test::write_text(dir_ / "x", "");
  expect_error(ErrorCode::io, {dir_ / "x"}, [&] { csv_logger(dir_ / "x/log.csv").on_claim(); });
}

TEST_F(Claims, JsonlWriterLocksItsFile) {
  std::optional<JsonlWriter> writer(std::in_place, dir_ / "m.jsonl");
  writer->write_scalars(1, {{"a", 1}});
  writer->flush();
  const std::string before = read_text(dir_ / "m.jsonl");
  expect_invalid({dir_ / "m.jsonl", "is being written"}, [&] { JsonlWriter(dir_ / "m.jsonl"); });
  EXPECT_EQ(read_text(dir_ / "m.jsonl"), before);
  writer->close();
  JsonlWriter(dir_ / "m.jsonl", {.append = true}).write_scalars(2, {{"a", 2}});
  EXPECT_GT(read_text(dir_ / "m.jsonl").size(), before.size());
}

// Temporary files of a process that was killed within replace_file.
TEST_F(Claims, RemovesPartialFilesOfDeadProcesses) {
  for (const char* name : {"log.csv.tmp-123", "log.jsonl.tmp-7", "board/events.out.tfevents.0000000099.host.1.tmp-55",
                           "log.csv.tmp-mine", "other.csv.tmp-123"}) {
    std::filesystem::create_directories(dir_ / "board");
    test::write_text(dir_ / name, "half");
  }
  (void)loop(claims_state(), std::vector<int>(2), all_writers());
  std::vector<std::string> left;
  for (const auto& [path, content] : all_files(dir_.path())) {
    if (path.find(".tmp-") != path.npos) left.push_back(path);
  }
  EXPECT_EQ(left, (std::vector<std::string>{dir_ / "log.csv.tmp-mine", dir_ / "other.csv.tmp-123"}));
}

}  // namespace
}  // namespace giro
