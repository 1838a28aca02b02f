#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro::test {

// A point of a run. Everything that is saved and loaded follows from its steps and a number that distinguishes runs.
struct Moment {
  std::int64_t steps = 0, variant = 0;
  friend bool operator==(const Moment&, const Moment&) = default;
};

class SampleRun {
 public:
  explicit SampleRun(std::int64_t size = 6) : state_(Device::cpu()) {
    state_.add("params", {{"kernel", DType::f32, {size}}, {"scale", DType::bf16, {}}, {"none", DType::f64, {3, 0}}});
    state_.add("grads", {{"kernel", DType::f32, {size}}}, {.saved = false});
    state_.add("opt_state", {{"half", DType::f16, {3}}, {"count", DType::i32, {1}}, {"bytes", DType::u8, {5}}});
    state_.add("flags", {{"on", DType::boolean, {2}}, {"double", DType::f64, {2}}});
    state_.add("step", {{"", DType::i64, {}}});
  }

  void save(CheckpointStore& store, Moment moment) {
    Archive archive = store.archive();
    persist(archive, moment);
    store.save(snapshot(moment), record(moment), std::move(archive));
  }
  std::shared_ptr<Snapshot> snapshot_at(Moment moment) { return std::make_shared<Snapshot>(snapshot(moment)); }

  static CheckpointRecord record(Moment moment) {
    return {.steps = moment.steps,
            .samples = 32 * moment.steps,
            .previous_samples = 32 * moment.steps - 32,
            .time = 0.1 * static_cast<double>(moment.steps),
            .previous_time = 0.01};
  }

  // Writes to an archive, or reads from it.
  static void persist(Archive& archive, Moment& moment) {
    archive("steps", moment.steps)("variant", moment.variant);
    auto array = std::make_shared<std::vector<float>>(8, static_cast<float>(10 * moment.steps + moment.variant));
    std::vector<Leaf> arrays{{"kernel", Tensor(array->data(), DType::f32, {8}, Device::cpu())}};
    std::shared_ptr<const void> owner = array;
    archive.within("best", [&] { archive.arrays("params", arrays, owner); });
    moment.variant -= array_differs(arrays, moment) ? 1000 : 0;
    for (const char* name : {"train", "test"}) {
      bool same = true;
      archive.lines(
          name, static_cast<std::size_t>(moment.steps),
          [&](std::size_t first) { return lines(name, static_cast<std::int64_t>(first), moment.steps); },
          [&](std::string_view text) { same = text == lines(name, 0, moment.steps); });
      if (!same) moment.variant -= 1000;
    }
  }

  // The moment that was loaded; its variant is negative if the parts do not belong together.
  static Moment moment_of(LoadedCheckpoint& loaded) {
    Moment moment;
    persist(loaded.archive, moment);
    SampleRun expected(loaded_size(loaded));
    const Snapshot saved = expected.snapshot(moment);
    bool same = moment.steps == loaded.record.steps && loaded.archive.report().empty() &&
                loaded.record.time == record(moment).time && loaded.leaves.size() == saved.leaves().size();
    for (const Leaf& leaf : loaded.leaves) {
      bool found = false;
      for (const Leaf& other : saved.leaves()) {
        found =
            found ||
            (other.path == leaf.path && other.value.dtype() == leaf.value.dtype() &&
             other.value.shape() == leaf.value.shape() &&
             (leaf.value.bytes() == 0 || std::memcmp(other.value.raw(), leaf.value.raw(), leaf.value.bytes()) == 0));
      }
      same = same && found;
    }
    if (!same) moment.variant -= 1000;
    return moment;
  }

 private:
  static std::string lines(const std::string& name, std::int64_t first, std::int64_t count) {
    std::string text;
    for (std::int64_t i = first; i < count; ++i)
      text += name + std::string(static_cast<std::size_t>(i % 7), '.') + "\n";
    return text;
  }
  static bool array_differs(const std::vector<Leaf>& arrays, Moment moment) {
    return arrays.size() != 1 || arrays[0].path != "kernel" ||
           arrays[0].value.data<float>()[7] != static_cast<float>(10 * moment.steps + moment.variant);
  }
  static std::int64_t loaded_size(const LoadedCheckpoint& loaded) {
    for (const Leaf& leaf : loaded.leaves) {
      if (leaf.path == "params/kernel") return leaf.value.count();
    }
    return 0;
  }

  Snapshot snapshot(Moment moment) {
    std::uint32_t bits = static_cast<std::uint32_t>(moment.steps * 7919 + moment.variant * 31 + 1);
    for (const Leaf& leaf : state_.flatten()) {
      auto* bytes = static_cast<unsigned char*>(leaf.value.raw());
      for (std::size_t i = 0; i < leaf.value.bytes(); ++i) {
        bits = bits * 1664525 + 1013904223;
        bytes[i] = static_cast<unsigned char>(bits >> 24);
      }
    }
    Snapshot snapshot(state_, MemoryKind::pinned);
    snapshot.wait();
    return snapshot;
  }

  State state_;
};

}  // namespace giro::test
