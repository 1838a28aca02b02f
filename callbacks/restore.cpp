#include <giro/callbacks/restore.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/callbacks/check_replicas.h>
#include <giro/runtime/error.h>
#include <giro/runtime/load_into.h>

#include "runtime/internal/stored_checkpoints.h"

namespace giro {
namespace {

// Loads a checkpoint into a state of the same structure, in any precision. Only f16 has a loss scale, so one may lack
// it.
void restore_state(State& state, const LoadedCheckpoint& checkpoint) {
  try {
    const auto is_scale = [](const auto& leaf) { return leaf.path.starts_with("loss_scale/"); };
    const bool is_given = std::ranges::any_of(checkpoint.leaves, is_scale);
    LoadOptions options;
    if (is_given != state.contains_collection("loss_scale")) options.optional = {"loss_scale"};
    load_into(state, checkpoint.leaves, options);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("checkpoint '{}': {}", checkpoint.path, error.what()));
  }
}

Restored restored_from(const LoadedCheckpoint& checkpoint) {
  const CheckpointRecord& record = checkpoint.record;
  return {{.steps = record.steps,
           .samples = record.samples,
           .date = record.time,
           .previous_samples = record.previous_samples,
           .previous_date = record.previous_time},
          checkpoint.path,
          checkpoint.skipped};
}

}  // namespace

Restored restore(State& state, const std::string& path, FileSystem& files) {
  const LoadedCheckpoint checkpoint = detail::load_checkpoint(files, path, detail::Needed::state);
  restore_state(state, checkpoint);
  return restored_from(checkpoint);
}

Resume::Resume(std::string dir, std::shared_ptr<FileSystem> files)
    : dir_(std::move(dir)), files_(std::move(files)), restored_(std::make_shared<Restored>()) {}

void Resume::resume(State& state, const Partitioner* partitioner, const Elapsed& elapsed,
                    const std::function<void(Archive&)>& persist) {
  std::optional<Archive> archive = read(state);
  if (partitioner != nullptr) {
    check_same_step(*partitioner);
    check_replicas(state, *partitioner);
  }
  if (archive) {
    archive->within("run", [&] { persist(*archive); });
    static_cast<Elapsed&>(*restored_) = elapsed;
    restored_->report = archive->report();
  }
}

std::optional<Archive> Resume::read(State& state) {
  std::vector<std::string> unreadable;
  const bool is_checkpoint =
      files_->status(detail::path_of(dir_, detail::kManifestName)).kind == FileSystem::Kind::file;
  if (!is_checkpoint && CheckpointStore(dir_, {.files = files_}).all(&unreadable).empty() && unreadable.empty()) {
    return std::nullopt;
  }
  LoadedCheckpoint checkpoint = load_checkpoint(dir_, *files_);
  restore_state(state, checkpoint);
  *restored_ = restored_from(checkpoint);
  if (checkpoint.archive.contains("run")) return std::move(checkpoint.archive);

  // The checkpoint has only a state: restore the time, and take as many batches as steps.
  Archive archive;
  archive.within("run", [&] {
    Elapsed elapsed = *restored_;
    archive("elapsed", elapsed)("batches", elapsed.steps);
  });
  return Archive::read(archive.text());
}

void Resume::check_same_step(const Partitioner& partitioner) const {
  const double steps = restored_->path.empty() ? -1 : static_cast<double>(restored_->steps);
  double range[]{steps, -steps};
  partitioner.agree(range);
  if (range[0] == -range[1]) return;
  const auto text = [](double step) { return step < 0 ? "no checkpoint" : fmt::format("step {}", step); };
  throw Error(ErrorCode::communication,
              fmt::format("checkpoint '{}': rank {} goes on from {}, others from {} to {}; expected a directory that "
                          "all ranks see",
                          dir_, partitioner.rank(), text(steps), text(-range[1]), text(range[0])));
}

}  // namespace giro
