// The program that kill_at_every_call_test.py kills: keep_its_best DIR KEEP ORDER ASYNCHRONOUS
//
// Runs 30 steps, saving the best states and the states to resume from. ORDER 0: the task for the best comes first, 1:
// the other. ASYNCHRONOUS 1: the best are saved asynchronously, 2: the others, 3: all.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/loop/loop.h>

namespace {

using Tasks = std::vector<giro::Task<giro::State, int>>;

void train(const std::string& dir, std::int64_t keep, bool best_is_first, std::int64_t asynchronous) {
  giro::State state(giro::Device::cpu());
  state.add("params", {{"x", giro::DType::f64, {64}}});
  const auto step = [](giro::State& trained, const int& batch) {
    auto* const x = static_cast<double*>(trained.at("params/x").raw());
    for (int i = 0; i < 64; ++i) x[i] = x[i] * 1.1 + batch + i;
    return giro::logs().add_loss("loss", (batch * 37 + 11) % 31 - batch);  // better in some steps
  };
  const Tasks best{
      {giro::every(1),
       giro::checkpoint(dir + "/best", {.keep = keep, .monitor = "loss", .asynchronous = (asynchronous & 1) != 0})}};
  const Tasks others{{giro::every_end(5) | giro::last(),
                      giro::backup_and_restore(dir + "/last", {.asynchronous = (asynchronous & 2) != 0})}};
  Tasks tasks{{giro::every(1), step}};
  for (const Tasks* more : {best_is_first ? &best : &others, best_is_first ? &others : &best}) {
    tasks.insert(tasks.end(), more->begin(), more->end());
  }
  std::vector<int> batches(30);
  std::iota(batches.begin(), batches.end(), 0);
  (void)giro::loop(std::move(state), batches, tasks);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    train(arguments.at(0), std::stoll(arguments.at(1)), arguments.at(2) == "0", std::stoll(arguments.at(3)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
