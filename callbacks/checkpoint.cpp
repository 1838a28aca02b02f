#include <giro/callbacks/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>
#include <giro/runtime/safetensors.h>
#include <giro/runtime/tensor.h>

namespace giro {
namespace {

constexpr std::string_view kPrefix = "checkpoint_", kSuffix = ".safetensors";

std::string file_name(std::int64_t steps) { return fmt::format("{}{:010}{}", kPrefix, steps, kSuffix); }

std::string join(const std::string& dir, const std::string& name) {
  return (std::filesystem::path(dir) / name).string();
}

template <class T>
std::optional<T> parse(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct Found {
  std::int64_t steps;
  std::string name;
};

// The checkpoints in a directory, oldest first. What has another name, such as a temporary left by a crash, is not
// ours to touch.
std::vector<Found> find_checkpoints(FileSystem& files, const std::string& dir) {
  std::vector<Found> found;
  for (const std::string& name : files.list(dir)) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() < kPrefix.size() + kSuffix.size()) {
      continue;
    }
    const std::size_t length = name.size() - kPrefix.size() - kSuffix.size();
    const auto steps = parse<std::int64_t>(std::string_view(name).substr(kPrefix.size(), length));
    if (steps && name == file_name(*steps)) found.push_back({*steps, name});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.steps < b.steps; });
  return found;
}

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

// The state counts its own steps if it has a scalar "step"; else this is called at the end of the step that `elapsed`
// is the beginning of.
std::int64_t completed_steps(const Elapsed& elapsed, const State& state) {
  if (state.contains("step")) {
    const Tensor step = state.at("step");
    if (step.dtype() == DType::i64 && step.count() == 1) {
      return to_host<std::int64_t>(step, state.stream()).front();
    }
  }
  return elapsed.steps + 1;
}

// The steps that `elapsed` does not count yet had as many samples as those before had on average.
std::int64_t completed_samples(const Elapsed& elapsed, std::int64_t steps) {
  if (elapsed.steps <= 0 || steps <= elapsed.steps) return elapsed.samples;
  return elapsed.samples + std::llround(static_cast<double>(elapsed.samples) / static_cast<double>(elapsed.steps));
}

std::vector<Leaf> saved_leaves(const State& state) {
  std::vector<Leaf> leaves;
  for (const auto& collection : state.collections()) {
    if (collection->saved()) leaves.insert(leaves.end(), collection->leaves().begin(), collection->leaves().end());
  }
  return leaves;
}

template <class T>
T read_metadata(const Safetensors& file, const std::string& path, const std::string& key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) {
    throw Error(ErrorCode::corrupt_data, fmt::format("checkpoint '{}' has no metadata '{}'", path, key));
  }
  const std::optional<T> number = parse<T>(found->second);
  if (!number || !(*number >= 0 && std::isfinite(static_cast<double>(*number)))) {
    throw Error(ErrorCode::corrupt_data, fmt::format("checkpoint '{}': metadata '{}' is {:?}, expected a number >= 0",
                                                     path, key, found->second));
  }
  return *number;
}

// `path` itself, or the newest checkpoint in it if it is a directory.
std::string find_file(FileSystem& files, const std::string& path) {
  std::vector<Found> found;
  try {
    found = find_checkpoints(files, path);
  } catch (const Error&) {
    return path;  // no directory; if it is no file either, reading it will say why
  }
  if (found.empty()) throw Error(ErrorCode::not_found, fmt::format("no checkpoint in the directory '{}'", path));
  return join(path, found.back().name);
}

}  // namespace

Checkpoint::Checkpoint(std::string dir, CheckpointOptions options)
    : dir_(std::move(dir)), options_(std::move(options)) {
  if (dir_.empty()) throw Error(ErrorCode::invalid_argument, "checkpoint: the directory's name is empty");
  if (options_.keep < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("checkpoint '{}': keep is {}, expected at least 1", dir_, options_.keep));
  }
}

void Checkpoint::operator()(const Elapsed& elapsed, State& state) const {
  std::vector<Buffer> buffers;
  std::vector<Leaf> leaves;
  for (const auto& collection : state.collections()) {
    if (!collection->saved()) continue;
    const Tensor source = collection->bytes();
    const Buffer& host = buffers.emplace_back(Buffer::allocate(Device::cpu(), source.bytes()));
    state.stream().copy(host.data(), source.raw(), source.bytes());
    for (const Leaf& leaf : collection->leaves()) {
      const auto offset = static_cast<char*>(leaf.value.raw()) - static_cast<char*>(source.raw());
      leaves.push_back({leaf.path, Tensor(static_cast<char*>(host.data()) + offset, leaf.value.dtype(),
                                          leaf.value.shape(), Device::cpu())});
    }
  }
  state.stream().synchronize();

  FileSystem& files = *options_.files;
  const std::int64_t steps = completed_steps(elapsed, state);
  const std::map<std::string, std::string> metadata{
      {"steps", fmt::format("{}", steps)},
      {"samples", fmt::format("{}", completed_samples(elapsed, steps))},
      {"time", fmt::format("{}", std::max(elapsed.time(), 0.0))}};
  create_durable_directory(files, dir_);
  const std::string name = file_name(steps);
  replace_file(files, join(dir_, name),
               [&](FileSystem::Writer& file) { write_safetensors(file, leaves, metadata); });

  // The one just written stays even where an earlier run has left newer ones.
  const std::vector<Found> found = find_checkpoints(files, dir_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(options_.keep) < found.size(); ++i) {
    if (found[i].name != name) files.remove(join(dir_, found[i].name));
  }
}

Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options) { return Checkpoint(dir, options); }

Elapsed restore(State& state, const std::string& path, FileSystem& files) {
  const std::string file_path = find_file(files, path);
  const Safetensors file = read_safetensors(files, file_path);
  std::map<std::string, Tensor> stored;
  for (const Leaf& leaf : file.tensors) stored.emplace(leaf.path, leaf.value);

  const double time = read_metadata<double>(file, file_path, "time");
  const Elapsed elapsed{.steps = read_metadata<std::int64_t>(file, file_path, "steps"),
                        .samples = read_metadata<std::int64_t>(file, file_path, "samples"),
                        .date = time,
                        .date_start = 0};
  const std::vector<Leaf> leaves = saved_leaves(state);
  std::set<std::string_view> expected;
  for (const Leaf& leaf : leaves) {
    expected.insert(leaf.path);
    const auto found = stored.find(leaf.path);
    if (found == stored.end()) {
      throw Error(ErrorCode::not_found, fmt::format("checkpoint '{}' has no leaf '{}'", file_path, leaf.path));
    }
    const bool dtypes_differ = found->second.dtype() != leaf.value.dtype();
    if (dtypes_differ || found->second.shape() != leaf.value.shape()) {
      throw Error(dtypes_differ ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                  fmt::format("checkpoint '{}': leaf '{}' is {}{}, expected {}{}", file_path, leaf.path,
                              name_of(found->second.dtype()), to_string(found->second.shape()),
                              name_of(leaf.value.dtype()), to_string(leaf.value.shape())));
    }
  }
  for (const Leaf& leaf : file.tensors) {
    if (!expected.contains(leaf.path)) {
      throw Error(ErrorCode::not_found,
                  fmt::format("checkpoint '{}': the state saves no leaf {:?}", file_path, leaf.path));
    }
  }

  for (const Leaf& leaf : leaves) copy(leaf.value, stored.at(leaf.path), state.stream());
  state.stream().synchronize();
  return elapsed;
}

}  // namespace giro
