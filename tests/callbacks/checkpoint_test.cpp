#include <giro/callbacks/checkpoint.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <giro/loop/loop.h>
#include <giro/runtime/safetensors.h>

#include "tests/expect_error.h"
#include "tests/faulty_file_system.h"
#include "tests/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

// A state like a training one, its values following from `value`, after `step` steps if it counts them.
State make_state(float value, std::int64_t step = -1, Device device = Device::cpu()) {
  State state(device);
  state.add("params", {{"dense0/kernel", DType::f32, {2, 3}}, {"dense0/bias", DType::f32, {3}}});
  state.add("grads", {{"dense0/kernel", DType::f32, {2, 3}}}, false);
  state.add("opt_state", {{"flags", DType::boolean, {2}}, {"none", DType::f64, {0}}});
  if (step >= 0) state.add("step", {{"", DType::i64, {}}});
  from_host(state.at("params/dense0/kernel"), std::vector<float>(6, value), state.stream());
  from_host(state.at("params/dense0/bias"), std::vector<float>{value, 2 * value, 3 * value}, state.stream());
  from_host(state.at("grads/dense0/kernel"), std::vector<float>(6, -value), state.stream());
  if (step >= 0) from_host(state.at("step"), std::vector<std::int64_t>{step}, state.stream());
  return state;
}

float value_of(const State& state) { return to_host<float>(state.at("params/dense0/bias"), state.stream())[0]; }

std::vector<std::string> names_in(const std::string& dir) { return posix_file_system()->list(dir); }
std::string name_of_step(const std::string& digits) { return "checkpoint_" + digits + ".safetensors"; }

Elapsed at_step(std::int64_t steps, std::int64_t samples = 0, double time = 0) {
  return {.steps = steps, .samples = samples, .date = 1e6 + time, .date_start = 1e6};
}

TEST(Checkpoint, RestoresWhatItSaved) {
  const test::TemporaryDirectory dir;
  State saved = make_state(1.5f, 42);
  checkpoint(dir / "a/b/model")(at_step(41, 41 * 32, 2.5), saved);
  EXPECT_EQ(names_in(dir / "a/b/model"), std::vector<std::string>{name_of_step("0000000042")});

  for (const std::string& path : {dir / "a/b/model", dir / "a/b/model/checkpoint_0000000042.safetensors"}) {
    State restored = make_state(7, 7);
    const Elapsed elapsed = restore(restored, path);
    EXPECT_EQ(elapsed.steps, 42);
    EXPECT_EQ(elapsed.samples, 42 * 32);
    EXPECT_EQ(elapsed.time(), 2.5);
    for (const Leaf& leaf : saved.flatten()) {
      if (leaf.path.starts_with("grads")) continue;
      EXPECT_EQ(std::memcmp(restored.at(leaf.path).raw(), leaf.value.raw(), leaf.value.bytes()), 0) << leaf.path;
    }
    // What is not saved stays.
    EXPECT_EQ(to_host<float>(restored.at("grads/dense0/kernel"), restored.stream()), std::vector<float>(6, -7));
  }
}

TEST(Checkpoint, MovesBetweenCudaAndTheCpu) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  const test::TemporaryDirectory dir;
  State host = make_state(2.5f, 9), device = make_state(0, 0, discovery.best());
  checkpoint(dir / "host")(at_step(8), host);
  EXPECT_EQ(restore(device, dir / "host").steps, 9);
  checkpoint(dir / "device")(at_step(8), device);
  EXPECT_EQ(test::read_text(dir / "device/checkpoint_0000000009.safetensors"),
            test::read_text(dir / "host/checkpoint_0000000009.safetensors"));
}

TEST(Checkpoint, WritesSavedLeavesUnderTheirPaths) {
  const test::TemporaryDirectory dir;
  State state = make_state(1, 3);
  checkpoint(dir.path())(at_step(2), state);
  const Safetensors file = read_safetensors(*posix_file_system(), dir / name_of_step("0000000003"));
  std::vector<std::string> paths;
  for (const Leaf& leaf : file.tensors) paths.push_back(leaf.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"opt_state/none", "step", "params/dense0/bias", "params/dense0/kernel",
                                             "opt_state/flags"}));
  EXPECT_EQ(file.metadata.at("steps"), "3");
}

TEST(Checkpoint, CountsStepsByTheStateOrElseByTheLoop) {
  const test::TemporaryDirectory dir;
  const auto steps_and_samples = [&](State state, const Elapsed& elapsed) {
    checkpoint(dir.path(), {.keep = 100})(elapsed, state);
    const Elapsed restored = restore(state, dir.path());
    return std::pair(restored.steps, restored.samples);
  };
  EXPECT_EQ(steps_and_samples(make_state(1), at_step(0)), std::pair(std::int64_t{1}, std::int64_t{0}));
  EXPECT_EQ(steps_and_samples(make_state(1), at_step(10, 320)), std::pair(std::int64_t{11}, std::int64_t{352}));
  // In front of the train step.
  EXPECT_EQ(steps_and_samples(make_state(1, 20), at_step(20, 640)), std::pair(std::int64_t{20}, std::int64_t{640}));
  EXPECT_EQ(steps_and_samples(make_state(1, 31), at_step(30, 960)), std::pair(std::int64_t{31}, std::int64_t{992}));
}

TEST(Checkpoint, KeepsTheNewest) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  for (const char* foreign :
       {"checkpoint_.safetensors", "checkpoint_1.safetensors", "checkpoint_0000000001.safetensor",
        "checkpoint_000000000x.safetensors", "checkpoint_0000000000.safetensors.tmp-1", "a"}) {
    test::write_text(dir / foreign, "");
  }
  const std::size_t foreign = names_in(dir.path()).size();
  const Checkpoint keep_three = checkpoint(dir.path(), {.keep = 3});
  for (const std::int64_t step : {1, 5, 99, 100, 1000}) keep_three(at_step(step), state);
  const std::vector<std::string> names = names_in(dir.path());
  EXPECT_EQ(names.size(), foreign + 3);
  for (const char* digits : {"0000000100", "0000000101", "0000001001"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name_of_step(digits)), 1) << digits;
  }
  EXPECT_EQ(restore(state, dir.path()).steps, 1001);
}

TEST(Checkpoint, NeverRemovesTheOneJustWritten) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  const Checkpoint keep_one = checkpoint(dir.path());
  keep_one(at_step(1000), state);
  keep_one(at_step(0), state);
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{name_of_step("0000000001"), name_of_step("0000001001")}));
}

TEST(Checkpoint, RemovesTheOldOnlyOnceTheNewIsDurable) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  const auto files = std::make_shared<test::FaultyFileSystem>();
  const Checkpoint save = checkpoint(dir.path(), {.files = files});
  save(at_step(0), state);
  files->calls.clear();
  save(at_step(1), state);
  ASSERT_GE(files->calls.size(), 4u);
  const std::vector<std::string> last(files->calls.end() - 4, files->calls.end());
  const std::string name = std::filesystem::path(dir.path()).filename().string();
  EXPECT_EQ(last, (std::vector<std::string>{"rename " + name_of_step("0000000002"), "sync_directory " + name,
                                            "list " + name, "remove " + name_of_step("0000000001")}));
}

// Whichever call fails, be it alone or as the last of the process, a whole checkpoint is there, and so it is after
// the next save.
TEST(Checkpoint, SurvivesAFaultAtEveryCall) {
  for (const bool crash : {false, true}) {
    std::size_t call = 1;
    for (bool done = false; !done; ++call) {
      ASSERT_LT(call, 50u);
      const test::TemporaryDirectory dir;
      State state = make_state(1, 1);
      checkpoint(dir.path())(at_step(0), state);
      state = make_state(2, 2);
      try {
        checkpoint(dir.path(), {.files = std::make_shared<test::FaultyFileSystem>(call, crash)})(at_step(1), state);
        done = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
      }
      State restored = make_state(0, 0);
      const Elapsed elapsed = restore(restored, dir.path());
      EXPECT_GE(elapsed.steps, done ? 2 : 1);
      EXPECT_EQ(value_of(restored), static_cast<float>(elapsed.steps)) << "call " << call;

      state = make_state(3, 3);
      checkpoint(dir.path())(at_step(2), state);
      EXPECT_EQ(restore(restored, dir.path()).steps, 3);
      EXPECT_EQ(value_of(restored), 3);
    }
    EXPECT_GT(call, 12u);
  }
}

TEST(Checkpoint, ReportsWhatItCannotWrite) {
  const test::TemporaryDirectory dir;
  test::write_text(dir / "file", "");
  State state = make_state(1);
  expect_error(ErrorCode::io, {dir / "file"}, [&] { checkpoint(dir / "file")(at_step(0), state); });
  expect_error(ErrorCode::io, {dir / "file"}, [&] { checkpoint(dir / "file/model")(at_step(0), state); });
  expect_error(ErrorCode::invalid_argument, {"keep is 0", "at least 1"}, [&] { checkpoint("a", {.keep = 0}); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { checkpoint(""); });
}

TEST(Checkpoint, IsABarrierOfTheLoop) {
  const test::TemporaryDirectory dir;
  const std::vector<int> batches(10);
  const auto train_step = [](State& state) {
    const auto step = to_host<std::int64_t>(state.at("step"), state.stream());
    from_host(state.at("step"), std::vector<std::int64_t>{step[0] + 1}, state.stream());
  };
  auto result = loop(make_state(1, 0), batches,
                     {{every(1), train_step}, {every(3), checkpoint(dir.path(), {.keep = 2})}}, {.stop = at(8)});
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{name_of_step("0000000004"), name_of_step("0000000007")}));
  const Elapsed elapsed = restore(result.state, dir.path());
  EXPECT_EQ(elapsed.steps, 7);
  EXPECT_EQ(elapsed.samples, 7);
}

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() {
    State state = make_state(1, 5);
    checkpoint(dir_.path())(at_step(4), state);
  }

  std::string path() const { return dir_ / name_of_step("0000000005"); }
  // A checkpoint in place of the first, of other leaves and metadata.
  void write(const std::vector<Leaf>& leaves, const std::map<std::string, std::string>& metadata) {
    replace_file(*posix_file_system(), path(),
                 [&](FileSystem::Writer& file) { write_safetensors(file, leaves, metadata); });
  }
  // Expects the error, and a state that is as it was.
  void expect_refused(ErrorCode code, std::initializer_list<std::string> words, State state) {
    State before = state.clone();
    expect_error(code, {path()}, [&] { restore(state, dir_.path()); });
    expect_error(code, words, [&] { restore(state, dir_.path()); });
    for (const Leaf& leaf : before.flatten()) {
      EXPECT_EQ(std::memcmp(state.at(leaf.path).raw(), leaf.value.raw(), leaf.value.bytes()), 0) << leaf.path;
    }
  }

  test::TemporaryDirectory dir_;
};

TEST_F(RestoreTest, NamesTheLeafThatDiffers) {
  const auto params = [](DType dtype, const Shape& bias) {
    State state(Device::cpu());
    state.add("params", {{"dense0/kernel", DType::f32, {2, 3}}, {"dense0/bias", dtype, bias}});
    state.add("opt_state", {{"flags", DType::boolean, {2}}, {"none", DType::f64, {0}}});
    state.add("step", {{"", DType::i64, {}}});
    return state;
  };
  State same = params(DType::f32, {3});
  EXPECT_EQ(restore(same, dir_.path()).steps, 5);
  expect_refused(ErrorCode::shape_mismatch, {"'params/dense0/bias'", "f32(3,)", "f32(3, 1)"},
                 params(DType::f32, {3, 1}));
  expect_refused(ErrorCode::dtype_mismatch, {"'params/dense0/bias'", "f32(3,)", "i32(3,)"}, params(DType::i32, {3}));

  State more = make_state(2, 6);
  more.add("batch_stats", {{"mean", DType::f32, {3}}});
  expect_refused(ErrorCode::not_found, {"no leaf 'batch_stats/mean'"}, std::move(more));
  expect_refused(ErrorCode::not_found, {"the state saves no leaf \"step\""}, make_state(2));
}

TEST_F(RestoreTest, RefusesDamage) {
  const std::string good = test::read_text(path());
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, good.size() / 2, good.size() - 1}) {
    test::write_text(path(), good.substr(0, size));
    expect_refused(ErrorCode::corrupt_data, {}, make_state(2, 6));
  }
  test::write_text(path(), good);
  State state = make_state(2, 6);
  EXPECT_EQ(restore(state, dir_.path()).steps, 5);
}

TEST_F(RestoreTest, RefusesBadMetadata) {
  std::vector<Leaf> leaves;
  const State saved = make_state(1, 5);
  for (const Leaf& leaf : saved.flatten()) {
    if (!leaf.path.starts_with("grads")) leaves.push_back(leaf);
  }
  const std::map<std::string, std::string> good{{"steps", "5"}, {"samples", "6"}, {"time", "0.5"}};
  for (const char* key : {"steps", "samples", "time"}) {
    auto metadata = good;
    metadata.erase(key);
    write(leaves, metadata);
    expect_refused(ErrorCode::corrupt_data, {"no metadata", key}, make_state(2, 6));
    for (const char* value : {"", "x", "-1", "5x", " 5", "nan", "inf", "99999999999999999999999"}) {
      if (std::string(key) == "time" && std::string(value).starts_with("9")) continue;
      metadata[key] = value;
      write(leaves, metadata);
      expect_refused(ErrorCode::corrupt_data, {key, std::string("\"") + value + "\"", "a number"}, make_state(2, 6));
    }
  }
  write(leaves, good);
  State state = make_state(2, 6);
  EXPECT_EQ(restore(state, path()).time(), 0.5);
}

TEST(Restore, SaysWhatIsNotThere) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  expect_error(ErrorCode::not_found, {"no checkpoint", dir.path()}, [&] { restore(state, dir.path()); });
  expect_error(ErrorCode::not_found, {dir / "gone"}, [&] { restore(state, dir / "gone"); });
}

}  // namespace
}  // namespace giro
