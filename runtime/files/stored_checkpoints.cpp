#include "runtime/files/stored_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "runtime/checksum.h"
#include "runtime/files/line_files.h"
#include "runtime/files/manifest.h"
#include "runtime/throw_error.h"

namespace giro {
namespace detail {
namespace {

// A file of a checkpoint, readable at any position. Only the parts (Manifest::Part) that contain bytes read are
// verified, each once; a file without parts is one part.
class VerifiedFile {
 public:
  // Errors naming the file: io; not_found; corrupt_data unless it is a file of the size in the manifest.
  VerifiedFile(FileSystem& files, const std::string& unit, const Manifest::File& file)
      : path_(path_of(unit, file.name)), bytes_(file.bytes) {
    const FileSystem::Status status = files.status(path_);
    if (status.kind == FileSystem::Kind::none) {
      throw_error(ErrorCode::not_found, "checkpoint '{}' has no file '{}'", unit, file.name);
    }
    expect(status.kind == FileSystem::Kind::file, "it is not a file");
    expect(status.bytes == bytes_, fmt::format("it has {} bytes, expected {}", status.bytes, bytes_));
    std::vector<Manifest::Part> parts = file.parts;
    if (parts.empty()) parts.push_back({bytes_, file.xxh3});
    std::uint64_t begin = 0;
    for (const Manifest::Part& part : parts) {
      expect(part.bytes <= bytes_ - begin, fmt::format("its parts have more than its {} bytes", bytes_));
      parts_.push_back({begin, begin + part.bytes, part.xxh3});
      begin += part.bytes;
    }
    expect(begin == bytes_, fmt::format("its parts have {} bytes, expected {}", begin, bytes_));
    reader_ = files.open(path_);
  }

  const std::string& path() const noexcept { return path_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // Bytes from `begin` on, all within the file. Error(corrupt_data) if a part that holds some of them does not match
  // its checksum; io.
  void read(std::uint64_t begin, std::size_t size, void* data) {
    const std::uint64_t end = begin + size;
    auto part = std::ranges::upper_bound(parts_, begin, {}, &Part::end);
    for (; size > 0 && part != parts_.end() && part->begin < end; ++part) {
      const std::uint64_t first = std::max(begin, part->begin), last = std::min(end, part->end);
      char* const target = static_cast<char*>(data) + (first - begin);
      if (part->is_verified) {
        fetch(first, last, target, nullptr);
        continue;
      }
      Checksum checksum;
      fetch(part->begin, first, nullptr, &checksum);
      fetch(first, last, target, &checksum);
      fetch(last, part->end, nullptr, &checksum);
      const std::string found = checksum.digits();
      expect(found == part->xxh3, parts_.size() == 1
                                      ? fmt::format("its checksum is {}, expected {}", found, part->xxh3)
                                      : fmt::format("the checksum of its bytes {} to {} is {}, expected {}",
                                                    part->begin, part->end, found, part->xxh3));
      part->is_verified = true;
    }
  }

 private:
  struct Part {
    std::uint64_t begin, end;
    std::string xxh3;
    bool is_verified = false;
  };

  void expect(bool holds, const std::string& what) const {
    if (!holds) throw_error(ErrorCode::corrupt_data, "checkpoint file '{}': {}", path_, what);
  }
  // Reads bytes [begin, end), and adds them to the checksum if given. Without `data` the last of them are kept in
  // read_ahead_.
  void fetch(std::uint64_t begin, std::uint64_t end, char* data, Checksum* checksum) {
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // bytes; stays in a core's cache
    while (begin < end) {
      const auto piece = static_cast<std::size_t>(std::min(kPiece, end - begin));
      if (data == nullptr) {
        read_ahead_.resize(piece);
        read_ahead_begin_ = begin;
      } else if (checksum == nullptr && begin >= read_ahead_begin_ &&
                 begin + piece <= read_ahead_begin_ + read_ahead_.size()) {
        std::memcpy(data, read_ahead_.data() + (begin - read_ahead_begin_), piece);
        data += piece;
        begin += piece;
        continue;
      }
      char* const target = data != nullptr ? data : read_ahead_.data();
      const std::size_t got = reader_->read_at(begin, target, piece);
      expect(got == piece, fmt::format("it has {} bytes, expected {}", begin + got, bytes_));
      if (checksum != nullptr) checksum->add(target, piece);
      if (data != nullptr) data += piece;
      begin += piece;
    }
  }

  std::string path_;
  std::uint64_t bytes_;
  std::vector<Part> parts_;
  std::unique_ptr<FileSystem::Reader> reader_;
  std::vector<char> read_ahead_;  // bytes verified together with others
  std::uint64_t read_ahead_begin_ = 0;
};

// Leaves out damaged parts that are not needed.
LoadedCheckpoint load_unit(FileSystem& files, const std::string& unit, const LoadRequest& request) {
  const Manifest manifest = read_manifest(files, unit);
  std::vector<std::string> skipped;
  const auto unless_needed = [&](bool is_needed, const auto& load, const auto& leave_out) {
    try {
      load();
    } catch (const Error& error) {
      if (is_needed || !is_damaged(error)) throw;
      skipped.push_back(error.what());
      leave_out();
    }
  };
  std::uint64_t bytes = 0;
  for (const Manifest::File& file : manifest.files) bytes += file.bytes;
  const auto load_files = [&](ShardReader& joiner, bool of_memory) {
    for (const Manifest::File& file : manifest.files) {
      if (is_memory(file) != of_memory) continue;
      VerifiedFile opened(files, unit, file);
      const auto read = [&](std::uint64_t begin, std::size_t size, void* data) { opened.read(begin, size, data); };
      const safetensors::Layout layout = safetensors::read_layout(read, opened.bytes(), opened.path());
      is_shard(file) ? joiner.add_shard(layout, read, opened.path())
                     : joiner.add_whole_leaves(layout, read, opened.path());
    }
    return joiner.finish(unit);
  };
  ShardReader state(bytes, request.held), memory(bytes);
  std::vector<Leaf> leaves = load_files(state, /*of_memory=*/false), arrays;
  unless_needed(
      request.needed != Needed::state, [&] { arrays = load_files(memory, /*of_memory=*/true); }, [] {});

  std::map<std::string, Archive::Lines> lines;
  const std::string dir = (std::filesystem::path(unit) / "..").lexically_normal().string();
  for (const Manifest::Lines& of_path : manifest.lines) {
    unless_needed(
        request.needed == Needed::all, [&] { lines.emplace(of_path.path, read_lines(files, dir, of_path)); },
        [&] {
          Archive::Lines good = read_good_lines(files, dir, of_path);
          const auto count = std::count(good.text.begin(), good.text.end(), '\n');
          skipped.back() += fmt::format("; {} of its {} lines are left", count, of_path.lines);
          lines.emplace(of_path.path, std::move(good));
        });
  }
  LoadedCheckpoint loaded{unit, manifest.version, manifest.record, std::move(leaves), state.owner()};
  loaded.archive = Archive::read(manifest.memory, std::move(arrays), memory.owner(), std::move(lines));
  loaded.skipped = std::move(skipped);
  return loaded;
}

// The steps in an entry's name must agree with its record.
void check_steps(const StoreEntry& entry, const std::string& path, const CheckpointRecord& record) {
  if (record.steps == entry.steps) return;
  throw_error(ErrorCode::corrupt_data, "checkpoint '{}' itself says that it is from step {}", path, record.steps);
}

void check_is_directory(FileSystem& files, const std::string& path) {
  const FileSystem::Kind kind = files.status(path).kind;
  if (kind == FileSystem::Kind::directory) return;
  if (kind == FileSystem::Kind::file) {
    throw_error(ErrorCode::unsupported, "checkpoint '{}' is a file, as in version 0.1, expected a directory", path);
  }
  throw_error(ErrorCode::corrupt_data, "checkpoint '{}' is not a directory", path);
}

StoredCheckpoints::Item describe(FileSystem& files, const std::string& dir, const StoreEntry& entry) {
  const std::string path = path_of(dir, entry.name);
  check_is_directory(files, path);
  const Manifest manifest = read_manifest(files, path);
  check_steps(entry, path, manifest.record);
  StoredCheckpoints::Item item{entry, {path, manifest.version, manifest.record}, {}};
  for (const Manifest::Lines& lines : manifest.lines) item.lines.push_back(lines.name);
  return item;
}

// The entries that can be loaded, best last.
std::vector<StoreEntry> candidates(FileSystem& files, const std::string& dir) {
  std::vector<StoreEntry> entries = store_entries(files, dir);
  std::erase_if(entries, [](const StoreEntry& entry) { return entry.kind > StoreEntryKind::checkpoint; });
  return entries;
}

bool same_names(const std::vector<StoreEntry>& a, const std::vector<StoreEntry>& b) {
  return std::ranges::equal(a, b, {}, &StoreEntry::name, &StoreEntry::name);
}

}  // namespace

bool is_damaged(const Error& error) {
  return error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::not_found ||
         error.code() == ErrorCode::io;
}

// A writer may rename and replace checkpoints meanwhile: entries that cannot be read are looked up again. They are
// unreadable if they are still there and fail in the same way.
StoredCheckpoints stored_checkpoints(FileSystem& files, const std::string& dir) {
  std::vector<StoreEntry> entries = candidates(files, dir);
  for (std::vector<std::string> before;;) {
    StoredCheckpoints stored;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      // The checkpoint that replaces it is there.
      const bool replaced =
          entries[i].kind == StoreEntryKind::old && i + 1 < entries.size() && entries[i + 1].steps == entries[i].steps;
      if (replaced) continue;
      try {
        stored.items.push_back(describe(files, dir, entries[i]));
      } catch (const Error& error) {
        if (!is_damaged(error) && error.code() != ErrorCode::unsupported) throw;
        stored.unreadable.push_back(error);
      }
    }
    std::vector<std::string> now;
    for (const Error& error : stored.unreadable) {
      if (error.code() == ErrorCode::not_found || error.code() == ErrorCode::corrupt_data)
        now.emplace_back(error.what());
    }
    if (now.empty()) return stored;
    std::vector<StoreEntry> again = candidates(files, dir);
    if (now == before && same_names(entries, again)) return stored;
    entries = std::move(again);
    before = std::move(now);
  }
}

std::optional<StoredCheckpoint> newest_checkpoint(FileSystem& files, const std::string& dir) {
  const std::vector<StoreEntry> entries = candidates(files, dir);
  if (entries.empty()) return std::nullopt;
  try {
    return describe(files, dir, entries.back()).stored;
  } catch (const Error&) {
    StoredCheckpoints stored = stored_checkpoints(files, dir);  // throws if the error is not of this checkpoint alone
    return stored.items.empty() ? std::nullopt : std::optional(std::move(stored.items.back().stored));
  }
}

HeldParts held_parts(const State& state) {
  HeldParts held;
  for (const auto& collection : state.collections()) {
    if (!collection->is_sharded()) continue;
    for (const LeafSpec& spec : collection->specs()) held[collection->path_of(spec)] = {{spec.shape, 0}, 0};
    for (const Leaf& leaf : collection->leaves()) held[leaf.path] = {*leaf.piece, leaf.value.count()};
  }
  return held;
}

LoadedCheckpoint load_checkpoint(FileSystem& files, const std::string& path, const LoadRequest& request) {
  if (files.status(path).kind == FileSystem::Kind::file) check_is_directory(files, path);
  const std::vector<std::string> names = files.list(path);
  // A checkpoint that the caller names may have been moved away from the lines it refers to.
  const bool is_unit = std::find(names.begin(), names.end(), kManifestName) != names.end();
  LoadRequest without_lines = request;
  without_lines.needed = std::max(request.needed, Needed::all_but_lines);
  if (is_unit) return load_unit(files, path, without_lines);

  std::vector<std::string> skipped;
  std::exception_ptr newest;
  // The newest with everything needed undamaged.
  const auto load_any = [&](const std::vector<StoreEntry>& entries,
                            const LoadRequest& request) -> std::optional<LoadedCheckpoint> {
    skipped.clear();
    for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
      try {
        const std::string unit = path_of(path, it->name);
        check_is_directory(files, unit);
        LoadedCheckpoint loaded = load_unit(files, unit, request);
        check_steps(*it, unit, loaded.record);
        loaded.skipped.insert(loaded.skipped.begin(), skipped.begin(), skipped.end());
        return loaded;
      } catch (const Error& error) {
        if (!is_damaged(error)) throw;
        if (skipped.empty()) newest = std::current_exception();
        skipped.push_back(error.what());
      }
    }
    return std::nullopt;
  };
  const auto usable = [&] {
    std::vector<StoreEntry> entries = candidates(files, path);
    std::erase_if(entries, [&](const StoreEntry& entry) { return entry.steps > request.max_steps; });
    return entries;
  };
  std::vector<StoreEntry> entries = usable();
  std::string latest_error;
  for (int alike = 0;;) {
    if (auto loaded = load_any(entries, request)) return std::move(*loaded);
    // A writer may have replaced them all meanwhile, also by checkpoints of the same names. A damaged checkpoint,
    // unlike a replaced one, fails in the same way each time.
    std::vector<StoreEntry> now = usable();
    if (now.empty()) throw_error(ErrorCode::not_found, "no checkpoint in the directory '{}'", path);
    const bool same = same_names(entries, now) && !skipped.empty() && skipped.front() == latest_error;
    alike = same ? alike + 1 : 0;
    latest_error = skipped.empty() ? "" : skipped.front();
    entries = std::move(now);
    if (alike < 2) continue;
    const std::exception_ptr error = newest;
    if (request.needed == Needed::all) {  // a checkpoint with damaged lines is better than none
      if (auto loaded = load_any(entries, without_lines)) return std::move(*loaded);
    }
    std::rethrow_exception(error);
  }
}

}  // namespace detail

LoadedCheckpoint load_checkpoint(const std::string& path, FileSystem& files) {
  return detail::load_checkpoint(files, path, detail::LoadRequest());
}

}  // namespace giro
