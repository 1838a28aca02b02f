// The program that kill_at_every_call_test.py kills, and that then checks what is left:
//   save_checkpoints save DIR KEEP STEPS VARIANT [KEEP STEPS VARIANT]...
//   save_checkpoints prune DIR KEEP
//   save_checkpoints check DIR    loads every listed checkpoint and prints its steps and variant; then saves step 9 and
//                                 loads it

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>

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
