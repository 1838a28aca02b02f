// What kill_at_every_call_test.py kills, and what then looks at what is left:
//   save_checkpoints save DIR KEEP STEPS VARIANT [KEEP STEPS VARIANT]...
//   save_checkpoints prune DIR KEEP
//   save_checkpoints check DIR    loads each that is listed and prints its steps and variant; then saves at step 9 and
//                                 loads that
//   save_checkpoints train DIR KEEP ORDER ASYNCHRONOUS
//                                 30 steps of a run that saves its best states beside those that it goes on from: ORDER
//                                 0 or 1, which of them comes first; ASYNCHRONOUS 1 the best, 2 the others, 3 all

#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/loop/loop.h>
#include <giro/runtime/checkpoint_store.h>

#include "tests/runtime/sample_run.h"

namespace {

using giro::test::Moment, giro::test::SampleRun;

void save(const std::string& dir, std::int64_t keep, Moment moment) {
  giro::CheckpointStore store(dir, {.keep = keep});
  SampleRun().save(store, moment);
}

Moment load(const std::string& path) {
  giro::LoadedCheckpoint loaded = giro::load_checkpoint(path);
  const Moment moment = SampleRun::moment_of(loaded);
  if (moment.variant < 0) throw std::runtime_error(path + " is mixed up");
  if (!loaded.skipped.empty()) throw std::runtime_error("skipped: " + loaded.skipped[0]);
  return moment;
}

void check(const std::string& dir) {
  std::vector<std::string> unreadable;
  const std::vector<giro::StoredCheckpoint> all = giro::CheckpointStore(dir).all(&unreadable);
  if (!unreadable.empty()) throw std::runtime_error(unreadable[0]);
  Moment newest;
  for (const giro::StoredCheckpoint& stored : all) {
    newest = load(stored.path);
    std::printf("%d.%d ", static_cast<int>(newest.steps), static_cast<int>(newest.variant));
  }
  if (!all.empty() && !(load(dir) == newest)) throw std::runtime_error("the newest is not the one that is loaded");
  const Moment next{9, 1};
  save(dir, 1, next);
  if (!(load(dir) == next)) throw std::runtime_error("the next save was not loaded");
}

void train(const std::string& dir, std::int64_t keep, bool best_is_first, std::int64_t asynchronous) {
  giro::State state(giro::Device::cpu());
  state.add("params", {{"x", giro::DType::f64, {64}}});
  const auto step = [](giro::State& trained, const int& batch) {
    auto* const x = static_cast<double*>(trained.at("params/x").raw());
    for (int i = 0; i < 64; ++i) x[i] = x[i] * 1.1 + batch + i;
    return giro::logs().add_metric("loss", (batch * 37 + 11) % 31 - batch);  // better in some steps
  };
  const giro::Checkpoint best =
      giro::checkpoint(dir + "/best", {.keep = keep, .monitor = "loss", .asynchronous = (asynchronous & 1) != 0});
  const giro::BackupAndRestore last =
      giro::backup_and_restore(dir + "/last", {.asynchronous = (asynchronous & 2) != 0});
  std::vector<giro::Task<giro::State, int>> tasks{{giro::every(1), step}};
  if (best_is_first) tasks.emplace_back(giro::every(1), best);
  tasks.emplace_back(giro::every_end(5) | giro::last(), last);
  if (!best_is_first) tasks.emplace_back(giro::every(1), best);
  std::vector<int> batches(30);
  std::iota(batches.begin(), batches.end(), 0);
  (void)giro::loop(std::move(state), batches, tasks);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) { return std::stoll(arguments.at(i)); };
  try {
    const std::string command = arguments.at(0), dir = arguments.at(1);
    if (command == "save") {
      for (std::size_t i = 2; i < arguments.size(); i += 3) save(dir, number(i), {number(i + 1), number(i + 2)});
    } else if (command == "prune") {
      giro::CheckpointStore(dir, {.keep = number(2)}).prune();
    } else if (command == "train") {
      train(dir, number(2), number(3) == 0, number(4));
    } else if (command == "check") {
      check(dir);
    } else {
      throw std::runtime_error("there is no command " + command);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
