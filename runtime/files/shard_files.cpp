#include "runtime/files/shard_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/safetensors.h>

#include "runtime/files/store_names.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr const char* kPieces = "pieces";

struct StoredPiece {
  std::string path;
  std::int64_t begin = -1;
  std::vector<std::int64_t> shape;

  void persist(Archive& archive) { archive("path", path)("begin", begin)("shape", shape); }
};

template <class... Args>
[[noreturn]] void reject_shard(const std::string& path, fmt::format_string<Args...> what, Args&&... args) {
  throw_error(ErrorCode::corrupt_data, "shard '{}': {}", path, fmt::format(what, std::forward<Args>(args)...));
}

std::vector<StoredPiece> read_pieces(const safetensors::Layout& layout, const std::string& path) {
  const auto text = layout.metadata.find(kPieces);
  if (text == layout.metadata.end()) reject_shard(path, "it has no metadata '{}'", kPieces);
  std::vector<StoredPiece> pieces;
  try {
    Archive archive = Archive::read(text->second);
    archive(kPieces, pieces);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;
    reject_shard(path, "{}", error.what());
  }
  return pieces;
}

Shape shape_of(const StoredPiece& piece, const std::string& path) {
  try {
    return Shape(piece.shape);
  } catch (const Error& error) {
    reject_shard(path, "{}: {}", printable(piece.path), error.what());
  }
}

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; stays in a core's cache between checksum and write

// Writes to another writer, in large pieces, and computes the size and the checksums.
class ChecksumWriter final : public FileSystem::Writer {
 public:
  // A part has at least 1 MiB.
  ChecksumWriter(std::unique_ptr<FileSystem::Writer> writer, std::uint64_t parts_of_file)
      : writer_(std::move(writer)), written_(std::uint64_t{1} << 20, std::max<std::uint64_t>(parts_of_file, 1)) {}

  void write(const void* data, std::size_t bytes) override {
    if (small_.size() + bytes < kPiece) {
      small_.append(static_cast<const char*>(data), bytes);
      return;
    }
    flush();
    for (const char *next = static_cast<const char*>(data), *end = next + bytes; next != end;) {
      const std::size_t piece = std::min(kPiece, static_cast<std::size_t>(end - next));
      pass_on(next, piece);
      next += piece;
    }
  }
  void sync() override {
    flush();
    writer_->sync();
  }
  void close() override {
    flush();
    writer_->close();
  }

  // What was written under this name. No parts if there is only one.
  Manifest::File file(std::string name) const {
    Manifest::File file{std::move(name), written_.bytes(), written_.digits(), written_.parts()};
    if (file.parts.size() == 1) file.parts.clear();
    return file;
  }

 private:
  void flush() {
    if (small_.empty()) return;
    pass_on(small_.data(), small_.size());
    small_.clear();
  }
  void pass_on(const char* data, std::size_t bytes) {
    writer_->write(data, bytes);
    written_.add({data, bytes});
  }

  std::unique_ptr<FileSystem::Writer> writer_;
  std::string small_;  // small writes not passed on yet
  PartChecksums written_;
};

}  // namespace

std::string shard_name(std::string_view file, const Shard& shard) {
  const std::size_t dot = file.find('.');
  return fmt::format("{}-{:05}-of-{:05}{}", file.substr(0, dot), shard.index + 1, shard.count, file.substr(dot));
}

std::map<std::string, std::string> piece_metadata(const std::vector<Leaf>& pieces) {
  std::vector<StoredPiece> stored;
  for (const Leaf& leaf : pieces) {
    const Shape& whole = leaf.piece->whole;
    stored.push_back({leaf.path, leaf.piece->begin, {whole.begin(), whole.end()}});
  }
  Archive archive;
  archive(kPieces, stored);
  return {{kPieces, archive.text()}};
}

std::vector<Manifest::File> write_leaves(FileSystem& files, const std::string& unit, const std::vector<Leaf>& leaves,
                                         const std::vector<Leaf>& arrays, const std::optional<Shard>& shard) {
  constexpr std::uint64_t kPartsOfFiles = 256;  // over all shards, because one manifest lists the parts of all
  const std::uint64_t parts = kPartsOfFiles / static_cast<std::uint64_t>(shard ? shard->count : 1);
  std::vector<Manifest::File> written;
  for (const auto& [file, all] : {std::pair(kStateName, &leaves), std::pair(kMemoryName, &arrays)}) {
    std::vector<Leaf> chosen;
    std::copy_if(all->begin(), all->end(), std::back_inserter(chosen),
                 [&](const Leaf& leaf) { return leaf.piece.has_value() == shard.has_value(); });
    if (chosen.empty() && file == kMemoryName) continue;
    const std::string name = shard ? shard_name(file, *shard) : std::string(file);
    ChecksumWriter writer(files.create(path_of(unit, name)), parts);
    write_safetensors(writer, chosen, shard ? piece_metadata(chosen) : std::map<std::string, std::string>());
    writer.sync();
    writer.close();
    written.push_back(writer.file(name));
  }
  return written;
}

ShardReader::Joined& ShardReader::begin(const safetensors::Layout::Stored& stored, const Shape& whole, bool in_shards,
                                        const std::string& path) {
  const std::uint64_t left = (max_bytes_ - bytes_) / size_of(stored.dtype);
  if (static_cast<std::uint64_t>(whole.count()) > left) {
    reject_shard(path, "the files are too small for the leaf {} of shape {}", printable(stored.name), to_string(whole));
  }
  bytes_ += static_cast<std::uint64_t>(whole.count()) * size_of(stored.dtype);
  Joined joined{stored.name, stored.dtype, whole, in_shards, 0, whole.count(), nullptr};
  if (const auto held = held_.find(stored.name); held != held_.end()) {
    const auto& [piece, count] = held->second;
    const bool fits = piece.whole == whole;
    joined.begin = fits ? piece.begin : 0;
    joined.end = joined.begin + (fits ? count : 0);
  }
  const std::size_t bytes = static_cast<std::size_t>(joined.end - joined.begin) * size_of(stored.dtype);
  memory_->push_back(std::make_unique_for_overwrite<char[]>(std::max<std::size_t>(bytes, 1)));
  joined.memory = memory_->back().get();
  index_.emplace(stored.name, joined_.size());
  return joined_.emplace_back(std::move(joined));
}

void ShardReader::read_held(Joined& joined, std::int64_t count, std::uint64_t at, const safetensors::ReadBytes& read) {
  const std::size_t size = size_of(joined.dtype);
  const std::int64_t first = std::max(joined.next, joined.begin), last = std::min(joined.next + count, joined.end);
  if (first < last) {
    read(at + static_cast<std::uint64_t>(first - joined.next) * size, static_cast<std::size_t>(last - first) * size,
         joined.memory + static_cast<std::size_t>(first - joined.begin) * size);
  }
  joined.next += count;
}

void ShardReader::add_whole_leaves(const safetensors::Layout& layout, const safetensors::ReadBytes& read,
                                   const std::string& path) {
  for (const safetensors::Layout::Stored& stored : layout.tensors) {
    if (index_.contains(stored.name)) reject_shard(path, "{} appears twice", printable(stored.name));
    Joined& joined = begin(stored, stored.shape, /*in_shards=*/false, path);
    read_held(joined, stored.shape.count(), stored.begin, read);
  }
}

void ShardReader::add_shard(const safetensors::Layout& layout, const safetensors::ReadBytes& read,
                            const std::string& path) {
  std::map<std::string_view, const safetensors::Layout::Stored*> tensors;
  for (const safetensors::Layout::Stored& stored : layout.tensors) tensors.emplace(stored.name, &stored);
  for (const StoredPiece& piece : read_pieces(layout, path)) {
    const auto found = tensors.extract(piece.path);
    if (found.empty()) reject_shard(path, "it has no tensor {}, or two pieces of it", printable(piece.path));
    const safetensors::Layout::Stored& stored = *found.mapped();
    const Shape whole = shape_of(piece, path);
    const auto known = index_.find(piece.path);
    Joined& joined = known == index_.end() ? begin(stored, whole, /*in_shards=*/true, path) : joined_[known->second];
    if (!joined.in_shards) reject_shard(path, "{} appears both whole and in shards", printable(piece.path));
    if (joined.dtype != stored.dtype || joined.whole != whole || stored.shape.rank() != 1 ||
        piece.begin != joined.next || stored.shape.count() > whole.count() - piece.begin) {
      reject_shard(path,
                   "the piece {}{} of {} that begins at element {} does not continue the {} elements of {} before it",
                   name_of(stored.dtype), to_string(stored.shape), printable(piece.path), piece.begin, joined.next,
                   joined.expected());
    }
    read_held(joined, stored.shape.count(), stored.begin, read);
  }
  if (!tensors.empty()) reject_shard(path, "it does not say what {} is a piece of", printable(tensors.begin()->first));
}

std::string ShardReader::Joined::expected() const { return fmt::format("{}{}", name_of(dtype), to_string(whole)); }

std::vector<Leaf> ShardReader::finish(const std::string& unit) {
  std::vector<Leaf> leaves;
  for (Joined& joined : joined_) {
    if (joined.next != joined.whole.count()) {
      throw_error(ErrorCode::corrupt_data, "checkpoint '{}': its shards have {} elements of {}, expected {}", unit,
                  joined.next, printable(joined.path), joined.expected());
    }
    Leaf& leaf = leaves.emplace_back();
    if (held_.contains(joined.path)) {
      leaf.value = Tensor(joined.memory, joined.dtype, {joined.end - joined.begin}, Device::cpu());
      leaf.piece = Piece{joined.whole, joined.begin};
    } else {
      leaf.value = Tensor(joined.memory, joined.dtype, joined.whole, Device::cpu());
    }
    leaf.path = std::move(joined.path);
  }
  return leaves;
}

}  // namespace giro::detail
