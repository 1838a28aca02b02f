#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/archive.h>
#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/state.h>

namespace giro {

// Where a checkpoint was taken, in completed steps, samples and seconds: for LoopOptions::elapsed.
struct Restored : Elapsed {
  std::string path;  // of the checkpoint; empty: there was none
  // Why newer ones were not taken, newest first, then what of this one is damaged and was left out: a line each.
  std::vector<std::string> skipped;
  // Of a run that was resumed: what was saved and is nowhere now, and what is new, a line each.
  std::vector<std::string> report = {};
};

// Reads a checkpoint into a state of the same structure. `path` is a checkpoint, or a directory of them, whose newest
// is taken of which the state is not damaged, whatever else is. The state changes only if all of it is good;
// collections that are not saved stay as they are. A training state of any precision takes the checkpoints of another;
// where it has a loss scale, and the checkpoint none, that stays as it is. Errors: those of load_checkpoint and
// load_into, each naming the checkpoint and, where there is one, the leaf.
Restored restore(State& state, const std::string& path, FileSystem& files = *posix_file_system());

// A callback for LoopOptions::on_start that brings back the run which the newest checkpoint in a directory was taken
// of, or a checkpoint that is named itself: the state, and all that the run remembers, its place in the dataset
// included. The loop goes on as if there had been no interruption: params, history, files and what is shown are those
// of a run that was never interrupted. Where there is no checkpoint, the run begins. Of a checkpoint that holds a state
// alone, of version 0.1 or of a loop written by hand, the loop goes on with the state, the time and the place in the
// dataset.
//
//   auto [trained, history, elapsed] = giro::loop(std::move(state), train, tasks,
//       {.stop = giro::at(5'000), .on_start = {giro::resume("logdir/model")}});
//
// Errors: as of restore, but for not_found where there is no checkpoint; invalid_argument where the dataset is another.
class Resume : public GenericCallback {
 public:
  explicit Resume(std::string dir, std::shared_ptr<FileSystem> files = posix_file_system());

  template <class S, class B>
  void on_resume(LoopState<S, B>& loop) {
    static_assert(std::is_base_of_v<State, S>, "giro: a run is resumed that threads a State");
    loop.resumes = true;
    loop.state.expect_one_tree(&loop.state, sizeof(S));
    resume(loop.state, loop.partitioner(), loop.elapsed, [&loop](Archive& archive) { loop.persist(archive); });
  }
  template <class S, class B>
  void operator()(LoopState<S, B>&) {}

  // What this or a copy of it has brought back.
  const Restored& restored() const noexcept { return *restored_; }

 private:
  // `persist` reads what the run remembers, `elapsed` among it.
  void resume(State& state, const Partitioner* partitioner, const Elapsed& elapsed,
              const std::function<void(Archive&)>& persist);
  // What the run remembers, once the state is restored; nothing: there is no checkpoint.
  std::optional<Archive> read(State& state);
  // Error(communication) where not all ranks have restored the same step.
  void check_same_step(const Partitioner& partitioner) const;

  std::string dir_;
  std::shared_ptr<FileSystem> files_;
  std::shared_ptr<Restored> restored_;
};
inline Resume resume(const std::string& dir, const std::shared_ptr<FileSystem>& files = posix_file_system()) {
  return Resume(dir, files);
}

}  // namespace giro
