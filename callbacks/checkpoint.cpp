#include <giro/callbacks/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>
#include <giro/runtime/safetensors.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/tensor.h>

#include "callbacks/internal/checkpoint_files.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

using detail::CheckpointFile, detail::checkpoint_name, detail::find_checkpoints, detail::is_damage, detail::join,
    detail::parse, detail::read_elapsed;

const std::string kNotFinite = "not_finite";  // metadata: a leaf that has a NaN or an infinity in it

// A new directory is durable once each directory above it that is new, too, has been synced.
void create_durable_directory(FileSystem& files, const std::string& dir) {
  try {
    files.list(dir);
    return;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  const std::filesystem::path above = std::filesystem::path(dir).parent_path();
  const std::string parent = above.empty() ? std::string(".") : above.string();
  if (parent != dir) create_durable_directory(files, parent);
  files.create_directories(dir);
  files.sync_directory(parent);
}

// The state counts its own steps if it has a scalar "step".
std::optional<std::int64_t> counted_steps(const State& state) {
  if (!state.contains("step")) return std::nullopt;
  const Tensor step = state.at("step");
  if (step.dtype() != DType::i64 || step.count() != 1) return std::nullopt;
  return to_host<std::int64_t>(step, state.stream()).front();
}

// Where the step that begins at `elapsed` leaves the loop, if it is among the completed ones.
Elapsed completed(const Elapsed& elapsed, std::int64_t steps) {
  Elapsed done = elapsed;
  if (steps > elapsed.steps) done.count(elapsed.step_samples);
  done.steps = steps;
  return done;
}

template <class Bits>
bool is_finite(const Tensor& tensor, Bits exponent) {
  const auto* bits = static_cast<const Bits*>(tensor.raw());
  bool finite = true;
  for (std::int64_t i = 0; i < tensor.count(); ++i) finite &= (bits[i] & exponent) != exponent;
  return finite;
}

// The first leaf, in host memory, that has a NaN or an infinity in it, or "".
std::string find_not_finite(const std::vector<Leaf>& leaves) {
  for (const auto& [path, value] : leaves) {
    bool finite = true;
    switch (value.dtype()) {
      case DType::f32:
        finite = is_finite<std::uint32_t>(value, 0x7F800000);
        break;
      case DType::f64:
        finite = is_finite<std::uint64_t>(value, 0x7FF0000000000000);
        break;
      case DType::f16:
        finite = is_finite<std::uint16_t>(value, 0x7C00);
        break;
      case DType::bf16:
        finite = is_finite<std::uint16_t>(value, 0x7F80);
        break;
      case DType::i32:
      case DType::i64:
      case DType::u8:
      case DType::boolean:
        break;
    }
    if (!finite) return path;
  }
  return "";
}

// The best value of a monitored entry that a checkpoint was saved for, if it was and can be read.
std::optional<double> read_best(FileSystem& files, const std::string& path, const std::string& monitor) {
  try {
    const Safetensors file = read_safetensors(files, path);
    const auto entry = file.metadata.find("monitor"), best = file.metadata.find("best");
    if (entry == file.metadata.end() || best == file.metadata.end() || entry->second != monitor) return std::nullopt;
    return parse<double>(best->second);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;
    return std::nullopt;
  }
}

// One that cannot be read may be there: restore has passed it over, or would.
void check_none_later(FileSystem& files, const std::string& dir, const std::vector<CheckpointFile>& found,
                      std::int64_t steps) {
  for (const CheckpointFile& later : found) {
    if (later.steps <= steps) continue;
    try {
      const std::string path = join(dir, later.name);
      read_elapsed(read_safetensors(files, path), path);
    } catch (const Error& error) {
      if (is_damage(error)) continue;
      throw;
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("checkpoint '{}': step {} is saved there, later than step {}; expected a run that goes on "
                            "from it, another directory, or overwrite",
                            dir, later.steps, steps));
  }
}

// Whether one of them is a good checkpoint of a finite state.
bool has_finite(FileSystem& files, const std::string& dir, const std::vector<CheckpointFile>& found) {
  return std::any_of(found.rbegin(), found.rend(), [&](const CheckpointFile& f) {
    try {
      return !read_safetensors(files, join(dir, f.name)).metadata.contains(kNotFinite);
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      return false;
    }
  });
}

// What goes when there is a new checkpoint besides those found, oldest first. This run has come to `done` steps.
std::vector<std::string> superseded(const std::vector<CheckpointFile>& found, std::int64_t steps, std::int64_t done,
                                    const CheckpointOptions& options) {
  std::vector<std::string> names;
  const std::int64_t every = options.keep_every_n_steps;
  std::int64_t older =
      std::count_if(found.begin(), found.end(), [&](const CheckpointFile& f) { return f.steps < steps; });
  std::int64_t multiple = 0;  // that the latest of those that stay for good has passed
  for (const CheckpointFile& f : found) {
    if (f.steps >= steps) {
      if (f.steps > steps && (options.overwrite || f.steps <= done)) names.push_back(f.name);
      continue;
    }
    const bool stays = every > 0 && f.steps / every > multiple;
    if (stays) multiple = f.steps / every;
    if (older-- >= options.keep && !stays) names.push_back(f.name);
  }
  return names;
}

}  // namespace

Checkpoint::Checkpoint(std::string dir, CheckpointOptions options)
    : dir_(std::move(dir)), options_(std::move(options)) {
  if (dir_.empty()) throw Error(ErrorCode::invalid_argument, "checkpoint: the directory's name is empty");
  if (options_.keep < 1 || options_.keep_every_n_steps < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("checkpoint '{}': keep is {}, keep_every_n_steps is {}, expected at least 1 and 0", dir_,
                            options_.keep, options_.keep_every_n_steps));
  }
  const std::vector<std::string> known{"skip", "error", "save"};
  if (std::find(known.begin(), known.end(), options_.not_finite) == known.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("checkpoint '{}': not_finite is '{}', expected 'skip', 'error' or 'save'{}", dir_,
                            options_.not_finite, suggestion(options_.not_finite, known)));
  }
  if (!options_.monitor.empty()) monitor_.emplace(options_.monitor, options_.mode);
}

// A run that would save what an earlier one is already past hears of it before it has trained for long.
void Checkpoint::check_none_later(const Elapsed& elapsed, const State& state) const {
  if (options_.overwrite) return;
  try {
    const std::vector<CheckpointFile> found = find_checkpoints(*options_.files, dir_);
    giro::check_none_later(*options_.files, dir_, found, std::max(counted_steps(state).value_or(0), elapsed.steps));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;  // no directory yet
  }
}

std::optional<double> Checkpoint::improvement(std::int64_t done, const State& state, const Logs& logs) {
  if (!std::exchange(best_is_read_, true)) {
    // What lies there is of this run's past, unless it is later.
    FileSystem& files = *options_.files;
    const std::int64_t steps = counted_steps(state).value_or(done);
    create_durable_directory(files, dir_);
    for (const CheckpointFile& found : find_checkpoints(files, dir_)) {
      if (found.steps > steps) continue;
      if (const auto best = read_best(files, join(dir_, found.name), monitor_->entry())) monitor_->update(*best);
    }
  }
  const std::optional<double> value = monitor_->value(logs);
  return value && monitor_->is_better(*value, monitor_->best()) ? value : std::nullopt;
}

bool Checkpoint::save(const Elapsed& elapsed, std::int64_t done, const State& state, std::optional<double> best) const {
  FileSystem& files = *options_.files;
  if (state.moved_from()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("checkpoint '{}': the state was moved from, expected one that holds its leaves", dir_));
  }
  const Snapshot snapshot(state, MemoryKind::pinned);
  snapshot.wait();
  const std::int64_t steps = counted_steps(state).value_or(done);
  create_durable_directory(files, dir_);
  const std::vector<CheckpointFile> found = find_checkpoints(files, dir_);
  if (!options_.overwrite) giro::check_none_later(files, dir_, found, std::max(steps, done));

  const std::string not_finite = find_not_finite(snapshot.leaves());
  if (!not_finite.empty() && options_.not_finite != "save" && has_finite(files, dir_, found)) {
    *report_ = fmt::format("step {} is not saved: {} is not finite", steps, not_finite);
    if (options_.not_finite == "skip") return false;
    throw Error(ErrorCode::invalid_argument, fmt::format("checkpoint '{}': {}", dir_, *report_));
  }

  const Elapsed reached = completed(elapsed, steps);
  const auto seconds = [&](double date) { return fmt::format("{}", std::max(date - elapsed.date_start, 0.0)); };
  std::map<std::string, std::string> metadata{{"steps", fmt::format("{}", steps)},
                                              {"samples", fmt::format("{}", reached.samples)},
                                              {"previous_samples", fmt::format("{}", reached.previous_samples)},
                                              {"time", seconds(reached.date)},
                                              {"previous_time", seconds(reached.previous_date)}};
  if (!not_finite.empty()) metadata[kNotFinite] = not_finite;
  if (best) {
    metadata["monitor"] = monitor_->entry();
    metadata["best"] = fmt::format("{}", *best);
  }
  replace_file(files, join(dir_, checkpoint_name(steps)),
               [&](FileSystem::Writer& file) { write_safetensors(file, snapshot.leaves(), metadata); });
  for (const std::string& name : superseded(found, steps, done, options_)) files.remove(join(dir_, name));
  return true;
}

Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options) { return Checkpoint(dir, options); }

}  // namespace giro
