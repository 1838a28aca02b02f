#include "runtime/internal/shard_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <giro/runtime/archive.h>
#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro::detail {
namespace {

constexpr const char* kPieces = "pieces";

struct StoredPiece {
  std::string path;
  std::int64_t begin = -1;
  std::vector<std::int64_t> shape;

  void persist(Archive& archive) { archive("path", path)("begin", begin)("shape", shape); }
};

[[noreturn]] void refuse_shard(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::corrupt_data, fmt::format("shard '{}': {}", path, what));
}

std::vector<StoredPiece> read_pieces(const Safetensors& file, const std::string& path) {
  const auto text = file.metadata.find(kPieces);
  if (text == file.metadata.end()) refuse_shard(path, fmt::format("it has no metadata '{}'", kPieces));
  std::vector<StoredPiece> pieces;
  try {
    Archive archive = Archive::read(text->second);
    archive(kPieces, pieces);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;
    refuse_shard(path, error.what());
  }
  return pieces;
}

Shape shape_of(const StoredPiece& piece, const std::string& path) {
  try {
    return Shape(piece.shape);
  } catch (const Error& error) {
    refuse_shard(path, fmt::format("{}: {}", printable(piece.path), error.what()));
  }
}

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

void PieceJoiner::add(const Safetensors& file, const std::string& path) {
  std::map<std::string_view, const Tensor*> tensors;
  for (const Leaf& leaf : file.tensors) tensors.emplace(leaf.path, &leaf.value);
  for (const StoredPiece& piece : read_pieces(file, path)) {
    const auto found = tensors.extract(piece.path);
    if (found.empty())
      refuse_shard(path, fmt::format("it has no tensor {}, or two pieces of it", printable(piece.path)));
    const Tensor& value = *found.mapped();
    const Shape whole = shape_of(piece, path);
    const auto [at, is_new] = index_.emplace(piece.path, joined_.size());
    if (is_new) {
      const std::uint64_t left = (most_bytes_ - bytes_) / size_of(value.dtype());
      if (static_cast<std::uint64_t>(whole.count()) > left) {
        refuse_shard(path, fmt::format("the shards are too small for the leaf {} of shape {}", printable(piece.path),
                                       to_string(whole)));
      }
      bytes_ += static_cast<std::uint64_t>(whole.count()) * size_of(value.dtype());
      joined_.push_back({{piece.path, Tensor(nullptr, value.dtype(), whole, Device::cpu())}});
    }
    Joined& joined = joined_[at->second];
    Tensor& leaf = joined.leaf.value;
    if (leaf.dtype() != value.dtype() || leaf.shape() != whole || value.shape().rank() != 1 ||
        piece.begin != joined.next || value.count() > whole.count() - piece.begin) {
      refuse_shard(
          path, fmt::format("the piece {} of {} from element {} on does not continue the {} elements of {} before it",
                            to_string(value), printable(piece.path), piece.begin, joined.next, to_string(leaf)));
    }
    if (is_new) {
      memory_->push_back(std::make_unique_for_overwrite<char[]>(std::max<std::size_t>(leaf.bytes(), 1)));
      leaf = Tensor(memory_->back().get(), leaf.dtype(), whole, Device::cpu());
    }
    std::memcpy(static_cast<char*>(leaf.raw()) + static_cast<std::size_t>(joined.next) * size_of(leaf.dtype()),
                value.raw(), value.bytes());
    joined.next += value.count();
  }
  if (!tensors.empty())
    refuse_shard(path, fmt::format("it does not say what {} is a piece of", printable(tensors.begin()->first)));
}

std::vector<Leaf> PieceJoiner::finish(const std::string& unit) {
  std::vector<Leaf> leaves;
  for (Joined& joined : joined_) {
    if (joined.next != joined.leaf.value.count()) {
      throw Error(ErrorCode::corrupt_data,
                  fmt::format("checkpoint '{}': its shards have {} elements of {}, expected {}", unit, joined.next,
                              printable(joined.leaf.path), to_string(joined.leaf.value)));
    }
    leaves.push_back(std::move(joined.leaf));
  }
  return leaves;
}

}  // namespace giro::detail
