#include "runtime/files/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/files/file_operations.h"
#include "runtime/files/shard_files.h"
#include "runtime/files/store_names.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

void CheckpointRecord::persist(Archive& archive) {
  archive("steps", steps)("samples", samples)("previous_samples", previous_samples)("time", time)(
      "previous_time", previous_time)("not_finite", not_finite)("monitor", monitor)("best", best);
}

namespace detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDigits = 16;

std::string checksum_part(std::string_view rest) { return fmt::format("{{\"checksum\": \"{}\",", digits_of({rest})); }

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw_error(ErrorCode::corrupt_data, "manifest '{}': {}", path, what);
}

// Parses a manifest with a valid checksum.
Json parse(std::string_view text, const std::string& path) {
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > static_cast<int>(Archive::kMaxDepth) + 1) reject(path, "it is nested too deeply");
    return true;
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::exception&) {
    reject(path, "it is not valid JSON");
  }
}

// An object of the manifest that holds an archive.
const Json& part(const Json& tree, const char* name, const std::string& path) {
  const auto found = tree.find(name);
  if (found == tree.end() || !found->is_object()) reject(path, fmt::format("it has no object '{}'", name));
  return *found;
}

void check_names(const Manifest& manifest, const std::string& path) {
  const auto& files = manifest.files;
  const auto is_named = [&](std::size_t i, std::string_view name) { return i < files.size() && files[i].name == name; };
  std::size_t next = 0;
  const auto expect_files = [&](std::string_view state, std::string_view memory) {
    if (!is_named(next, state)) {
      reject(path, fmt::format("its files are not those of a checkpoint: number {} is {}, expected '{}'", next,
                               next < files.size() ? printable(files[next].name) : "missing", state));
    }
    ++next;
    if (is_named(next, memory)) ++next;
  };
  expect_files(kStateName, kMemoryName);
  const int shards = static_cast<int>(std::count_if(
      files.begin(), files.end(), [](const Manifest::File& file) { return is_shard(file) && !is_memory(file); }));
  for (int i = 0; i < shards; ++i) {
    expect_files(shard_name(kStateName, {i, shards}), shard_name(kMemoryName, {i, shards}));
  }
  if (next != files.size()) {
    reject(path, fmt::format("its files are not only those of a checkpoint: {}", printable(files[next].name)));
  }
  std::set<std::string_view> names, paths;
  for (const Manifest::Lines& lines : manifest.lines) {
    if (!parse_lines_name(lines.name)) {
      reject(path, fmt::format("it names {:?} as a file of lines, expected 'lines_<number>.jsonl'",
                               std::string_view(lines.name).substr(0, 80)));
    }
    if (!names.insert(lines.name).second || !paths.insert(lines.path).second) {
      reject(path, fmt::format("it names '{}' or its path twice", lines.name));
    }
  }
}

}  // namespace

void check_record(const CheckpointRecord& record, ErrorCode code, const std::string& where) {
  const auto check = [&](const char* name, auto number) {
    if (number >= 0 && std::isfinite(static_cast<double>(number))) return;
    throw_error(code, "{}: {} is {}, expected a number of at least 0", where, name, number);
  };
  check("steps", record.steps);
  check("samples", record.samples);
  check("previous_samples", record.previous_samples);
  check("time", record.time);
  check("previous_time", record.previous_time);
}

void PartChecksums::add(std::string_view bytes) {
  all_.add(bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const std::uint64_t full = std::max(least_, bytes_ / parts_of_file_);
    std::size_t taken = std::min<std::uint64_t>(full - part_bytes_, bytes.size());
    if (of_lines_ && taken < bytes.size()) taken = std::min(bytes.find('\n', taken), bytes.size() - 1) + 1;
    part_.add(bytes.data(), taken);
    part_bytes_ += taken;
    bytes_ += taken;
    bytes.remove_prefix(taken);
    if (part_bytes_ < full) continue;
    parts_.push_back({std::exchange(part_bytes_, 0), part_.digits()});
    part_ = Checksum();
  }
}

std::vector<Manifest::Part> PartChecksums::parts() const {
  std::vector<Manifest::Part> all = parts_;
  if (part_bytes_ > 0) all.push_back({part_bytes_, part_.digits()});
  return all;
}

std::string with_checksum(const std::string& rest) { return checksum_part(rest) + rest; }

std::string manifest_text(Manifest manifest) {
  const bool has_shards = std::any_of(manifest.files.begin(), manifest.files.end(), is_shard);
  Archive archive;
  manifest.persist(archive);
  const std::string text = with_checksum(fmt::format("\n\"version\": {},\n\"checkpoint\": {},\n\"memory\": {}}}\n",
                                                     has_shards ? Manifest::kVersion : Manifest::kVersionWithoutShards,
                                                     archive.text(), manifest.memory));
  if (text.size() > Manifest::kMaxBytes) {
    throw_invalid(
        "what the run remembers would make a manifest of {} bytes, more than {}; long values belong in an archive's "
        "arrays or lines",
        text.size(), Manifest::kMaxBytes);
  }
  return text;
}

bool is_memory(const Manifest::File& file) { return file.name.starts_with("memory"); }
bool is_shard(const Manifest::File& file) {
  return file.name.starts_with("state-") || file.name.starts_with("memory-");
}

Manifest read_manifest(FileSystem& files, const std::string& unit) {
  const std::string path = path_of(unit, kManifestName);
  const FileSystem::Status status = files.status(path);
  if (status.kind == FileSystem::Kind::none) {
    throw_error(ErrorCode::not_found, "'{}' has no manifest '{}'", unit, kManifestName);
  }
  if (status.kind != FileSystem::Kind::file) reject(path, "it is not a file");
  if (status.bytes > Manifest::kMaxBytes) {
    reject(path, fmt::format("it has {} bytes, more than {}", status.bytes, Manifest::kMaxBytes));
  }
  const FileBytes file = read_bytes(files, path, Manifest::kMaxBytes);
  const std::string_view text(file.data.get(), file.size);
  const std::size_t first = checksum_part("").size();
  if (text.size() < first) reject(path, fmt::format("it has {} bytes, expected at least {}", text.size(), first));
  const std::string expected = checksum_part(text.substr(first));
  if (text.substr(0, first) != expected) {
    reject(path, fmt::format("its checksum does not match; for these bytes it would be {}",
                             std::string_view(expected).substr(first - kDigits - 2, kDigits)));
  }

  const Json tree = parse(text, path);
  const auto version = tree.find("version");
  if (version == tree.end() || !version->is_number_integer()) reject(path, "it has no number 'version'");
  const auto number = version->get<std::int64_t>();
  if (number > Manifest::kVersion) {
    throw_error(ErrorCode::unsupported,
                "manifest '{}' has format version {}, but this giro supports only versions up to {}", path, number,
                Manifest::kVersion);
  }
  if (number < Manifest::kVersionWithoutShards) reject(path, fmt::format("there is no format version {}", number));

  Manifest manifest{.version = static_cast<int>(number)};
  CheckpointRecord& record = manifest.record;
  record = {.steps = -1, .samples = -1, .previous_samples = -1, .time = -1, .previous_time = -1};
  try {
    Archive archive = Archive::read(part(tree, "checkpoint", path).dump());
    manifest.persist(archive);
  } catch (const Error& error) {
    reject(path, error.what());
  }
  check_record(record, ErrorCode::corrupt_data, fmt::format("manifest '{}'", path));
  check_names(manifest, path);
  manifest.memory = part(tree, "memory", path).dump();
  return manifest;
}

}  // namespace detail
}  // namespace giro
