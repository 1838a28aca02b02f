#include <giro/callbacks/resume.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include <giro/callbacks/check_replicas.h>
#include <giro/runtime/files/load_into.h>

#include "runtime/files/stored_checkpoints.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// Loads a checkpoint into a state of the same structure, in any precision. Only f16 has a loss scale, so either may
// lack it.
void restore_state(State& state, LoadedCheckpoint& checkpoint) {
  try {
    detail::persist_declared(checkpoint.archive, state.declared());
    const auto is_scale = [](const auto& leaf) { return leaf.path.starts_with("loss_scale/"); };
    const bool is_given = std::ranges::any_of(checkpoint.leaves, is_scale);
    LoadOptions options;
    if (is_given != state.contains_collection("loss_scale")) options.optional = {"loss_scale"};
    load_into(state, checkpoint.leaves, options);
  } catch (const Error& error) {
    throw_error(error.code(), "checkpoint '{}': {}", checkpoint.path, error.what());
  }
}

// Calls load(max_steps). Each rank verifies only its own shard, so a rank may fall back to an older checkpoint than
// the others because of damage that they do not see. The others then take that one too.
std::optional<LoadedCheckpoint> load_same(
    const Partitioner* ranks, const std::string& path,
    const std::function<std::optional<LoadedCheckpoint>(std::int64_t max_steps)>& load) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max(), kNone = -1, kFailed = -2;
  if (ranks == nullptr || ranks->update_shard().count == 1) return load(kAny);
  std::optional<LoadedCheckpoint> loaded;
  std::string newer;
  for (std::int64_t steps = kAny, max_steps = kAny;;) {
    std::exception_ptr error;
    if (steps > max_steps || max_steps == kAny) {
      loaded.reset();
      try {
        loaded = load(max_steps);
        steps = loaded ? loaded->record.steps : kNone;
      } catch (const Error&) {
        error = std::current_exception();
        steps = kFailed;
      }
    }
    double range[]{static_cast<double>(steps), -static_cast<double>(steps)};
    ranks->all_reduce_max(range);
    max_steps = static_cast<std::int64_t>(-range[1]);
    if (error) std::rethrow_exception(error);
    if (max_steps == kFailed) {
      throw_error(ErrorCode::communication, "checkpoint '{}': another rank failed and cannot load any", path);
    }
    if (max_steps == kNone || static_cast<std::int64_t>(range[0]) == max_steps) break;
    if (steps > max_steps) newer = loaded->path;
  }
  if (loaded && !newer.empty()) {
    loaded->skipped.insert(loaded->skipped.begin(), fmt::format("checkpoint '{}': another rank cannot load it", newer));
  }
  return loaded;
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

void detail::persist_declared(Archive& archive, const std::vector<State::Declared>& declared) {
  if (declared.empty() || (archive.is_reading() && !archive.contains("state"))) return;  // an older checkpoint
  archive.within("state", [&] {
    for (const State::Declared& each : declared) {
      if (archive.is_reading() && (each.may_differ || !archive.contains(each.name))) continue;
      const std::string instead = fmt::format(
          "to go on regardless, call may_differ(\"{}\") on the state, or take the weights alone with load_into",
          each.name);
      archive.same({"the state", instead}, each.name, each.value);
    }
  });
}

Restored detail::restore_on_ranks(State& state, const Partitioner* ranks, const std::string& path, FileSystem& files,
                                  const std::function<void(Archive&)>& memory) {
  auto checkpoint = load_same(ranks, path, [&](std::int64_t max_steps) -> std::optional<LoadedCheckpoint> {
    return load_checkpoint(files, path, {Needed::state, held_parts(state), max_steps});
  });
  restore_state(state, *checkpoint);
  Archive& archive = checkpoint->archive;
  if (memory && archive.contains("memory")) archive.within("memory", [&] { memory(archive); });
  return restored_from(*checkpoint);
}

std::optional<Restored> detail::restore_first(State& state, const Partitioner* ranks,
                                              const std::vector<std::string>& paths, FileSystem& files,
                                              std::string& why) {
  for (std::size_t i = 0;; ++i) {
    std::string path = i < paths.size() ? paths[i] : "";
    if (ranks != nullptr) path = ranks->broadcast(path);
    if (path.empty()) return std::nullopt;
    std::optional<LoadedCheckpoint> loaded;
    std::exception_ptr error;
    double failed = 0;  // 1: damaged, 2: otherwise
    try {
      loaded = load_checkpoint(files, path, {Needed::state, held_parts(state)});
    } catch (const Error& caught) {
      failed = is_damaged(caught) ? 1 : 2;
      if (why.empty()) why = caught.what();
      if (failed == 2) error = std::current_exception();
    }
    if (ranks != nullptr) ranks->all_reduce_max({&failed, 1});
    if (error) std::rethrow_exception(error);
    if (failed == 2) throw_error(ErrorCode::communication, "checkpoint '{}': another rank cannot load it", path);
    if (failed == 1) continue;
    restore_state(state, *loaded);
    return restored_from(*loaded);
  }
}

Resume::Resume(std::string dir, std::shared_ptr<FileSystem> files)
    : dir_(std::move(dir)), files_(std::move(files)), restored_(std::make_shared<Restored>()) {}

void Resume::resume(State& state, const Partitioner* partitioner, const Elapsed& elapsed,
                    const std::function<void(Archive&)>& persist) {
  std::optional<Archive> archive = read(state, partitioner);
  if (partitioner != nullptr) {
    partitioner->expect_same(fmt::format("checkpoint '{}', a directory that all ranks must see", dir_),
                             archive ? fmt::format("step {}", restored_->steps) : "no checkpoint");
    check_replicas(state, *partitioner);
  }
  if (archive) {
    archive->within("run", [&] { persist(*archive); });
    static_cast<Elapsed&>(*restored_) = elapsed;
    restored_->report = archive->report();
  }
}

std::optional<Archive> Resume::read(State& state, const Partitioner* ranks) {
  auto checkpoint = load_same(ranks, dir_, [&](std::int64_t max_steps) -> std::optional<LoadedCheckpoint> {
    std::vector<std::string> unreadable;
    const bool is_checkpoint =
        files_->status(detail::path_of(dir_, detail::kManifestName)).kind == FileSystem::Kind::file;
    if (!is_checkpoint && CheckpointStore(dir_, {.files = files_}).all(&unreadable).empty() && unreadable.empty()) {
      return std::nullopt;
    }
    return detail::load_checkpoint(*files_, dir_, {detail::Needed::all, detail::held_parts(state), max_steps});
  });
  if (!checkpoint) return std::nullopt;
  restore_state(state, *checkpoint);
  *restored_ = restored_from(*checkpoint);
  if (checkpoint->archive.contains("run")) return std::move(checkpoint->archive);

  // The checkpoint has only a state: restore the time, and take as many batches as steps.
  Archive archive;
  archive.within("run", [&] {
    Elapsed elapsed = *restored_;
    archive("elapsed", elapsed)("batches", elapsed.steps);
  });
  return Archive::read(archive.text());
}

}  // namespace giro
