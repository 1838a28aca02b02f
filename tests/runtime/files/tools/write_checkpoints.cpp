// Writes the checkpoints for giro_checkpoint_test.py to DIR: steps 10, 20 and 30. The second one was saved for its
// loss, and the state of the third is not finite. With a second argument it repeats this until it is killed.

#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace {

// Persists the same structure as a run.
void persist(giro::Archive& archive, std::int64_t steps) {
  double best = 0.25;
  auto weights = std::make_shared<std::array<float, 2>>();
  std::vector<giro::Leaf> arrays{{"bias", giro::Tensor(weights->data(), giro::DType::f32, {2}, giro::Device::cpu())}};
  std::shared_ptr<const void> owner = weights;
  archive.within("run", [&] {
    archive.within("history", [&] {
      const auto records = [&](std::size_t first) {
        return std::string(static_cast<std::size_t>(steps) - first, '\n');
      };
      archive.lines("records", static_cast<std::size_t>(steps), records, [](std::string_view) {});
    });
    archive.within("schedules", [&] { archive("every(2 s)", best); });
    archive.within("callbacks", [&] {
      archive.within("early_stopping", [&] { archive("best", best).arrays("params", arrays, owner); });
      archive("bad\x1b[2J\nname", best);
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  try {
    giro::State state(giro::Device::cpu());
    state.add("params", {{"bias", giro::DType::f32, {2}}});
    state.add("step", {{"", giro::DType::i64, {}}});
    float* const bias = state.at("params/bias").data<float>();
    giro::CheckpointStore store(argv[1], {.keep = 3});
    do {
      for (const std::int64_t steps : {10, 20, 30}) {
        *state.at("step").data<std::int64_t>() = steps;
        bias[1] = steps == 30 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(steps);
        giro::CheckpointRecord record{
            .steps = steps, .samples = 32 * steps, .time = 0.125 * static_cast<double>(steps)};
        if (steps == 20) record.monitor = "loss", record.best = 0.5;
        if (steps == 30) record.not_finite = "params/bias";
        giro::Archive archive = store.archive();
        persist(archive, steps);
        store.save(giro::Snapshot(state, giro::MemoryKind::pinned), record, std::move(archive));
      }
      store.begin_run();
    } while (argc == 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
