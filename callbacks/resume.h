#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/state.h>

namespace giro {

// Where a checkpoint was taken, in completed steps, samples and seconds; to be used as LoopOptions::elapsed.
struct Restored : Elapsed {
  std::string path;  // of the checkpoint; empty: there was none
  // A line each: why newer checkpoints were not used, newest first; then what is damaged in this one and was left out.
  std::vector<std::string> skipped;
  // For a resumed run, a line each: what was saved and no longer exists, and what is new.
  std::vector<std::string> report = {};
};

namespace detail {
// Saves what a state declares, or expects the same of the saved state.
void persist_declared(Archive& archive, const std::vector<State::Declared>& declared);
// For loops that save a state alone, and find their place in the dataset by its step: the state declares what the
// dataset saves in a run.
template <class Dataset>
void declare_dataset(State& state, const Dataset& dataset) {
  Archive archive;
  dataset.persist(archive);
  for (const auto& [name, value] : archive.values()) state.declare("dataset/" + name, value);
}

Restored restore_on_ranks(State& state, const Partitioner* ranks, const std::string& path, FileSystem& files,
                          const std::function<void(Archive&)>& memory);

// Restores the state from the first checkpoint of `paths` that is not damaged on any rank; the paths are rank 0's. No
// state changes before all ranks have read theirs. nullopt, and the first error in `why`, if there is none.
std::optional<Restored> restore_first(State& state, const Partitioner* ranks, const std::vector<std::string>& paths,
                                      FileSystem& files, std::string& why);
}  // namespace detail

// Reads a checkpoint into a state of the same structure. `path` is a checkpoint or a directory of them. From a
// directory it takes the newest whose state is not damaged, even if other parts are. The state changes only if all of
// it is intact. Collections that are not saved stay as they are. A TrainState accepts checkpoints of any precision; if
// it has a loss scale and the checkpoint has none, the scale stays as it is. Errors: those of load_checkpoint and
// load_into, each naming the checkpoint and, where it applies, the leaf; invalid_argument if the state declares
// something that the checkpoint declares differently (State::declare), such as the optimizer.
//
// If several ranks hold shards of the state (zero_data_parallel), all of them call this, and each reads only the bytes
// that it needs. From a directory they take the newest checkpoint that all of them can read.
//
// `memory` reads what a loop written by hand has saved with the state (Checkpoint), if there is anything:
//
//   save(elapsed, state, {}, [&](giro::Archive& archive) { archive("stopping", stopping); });
//   giro::restore(state, "logdir/model", files, [&](giro::Archive& archive) { archive("stopping", stopping); });
template <std::derived_from<State> S>
Restored restore(S& state, const std::string& path, FileSystem& files = *posix_file_system(),
                 const std::function<void(Archive&)>& memory = {}) {
  return detail::restore_on_ranks(state, partitioner_of(state).get(), path, files, memory);
}

// A callback for LoopOptions::on_start that restores a run from the newest checkpoint in a directory, or from one given
// by its own path: the state and everything the run remembers, including its place in the dataset. The loop continues
// as if there had been no interruption: params, history, files and displayed lines match an uninterrupted run. Without
// a checkpoint the run starts from the beginning. A checkpoint of a state alone, from a loop written by hand, restores
// the state, the time and the place in the dataset.
//
//   auto [trained, history, elapsed] = giro::loop(std::move(state), train, tasks,
//       {.stop = giro::at(5'000), .on_start = {giro::resume("logdir/model")}});
//
// Errors: those of restore, except that a missing checkpoint is not an error; invalid_argument if the dataset differs;
// communication if the ranks do not restore the same step or the same bits.
class Resume : public GenericCallback {
 public:
  explicit Resume(std::string dir, std::shared_ptr<FileSystem> files = posix_file_system());

  template <class S, class B>
  void on_resume(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: only a run over a State can be resumed");
    loop.resumes = true;
    loop.state.expect_one_tree(&loop.state, sizeof(S));
    resume(loop.state, loop.partitioner(), loop.elapsed, [&loop](Archive& archive) { loop.persist(archive); });
  }
  template <class S, class B>
  void operator()(LoopState<S, B>&) {}

  // What this or a copy of it has restored.
  const Restored& restored() const noexcept { return *restored_; }

 private:
  // `persist` reads what the run remembers, including `elapsed`.
  void resume(State& state, const Partitioner* partitioner, const Elapsed& elapsed,
              const std::function<void(Archive&)>& persist);
  // Restores the state and returns what the run remembers; nullopt if there is no checkpoint.
  std::optional<Archive> read(State& state, const Partitioner* ranks);

  std::string dir_;
  detail::Handle<FileSystem> files_;
  detail::Handle<Restored> restored_;
};
inline Resume resume(const std::string& dir, const std::shared_ptr<FileSystem>& files = posix_file_system()) {
  return Resume(dir, files);
}

}  // namespace giro
