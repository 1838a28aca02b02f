#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/state.h>

#include "runtime/files/manifest.h"
#include "runtime/files/safetensors_format.h"

// The files of a checkpoint, which several processes may write together. One file has whole leaves. Each other file has
// the pieces of leaves that one process holds, e.g. `state-00001-of-00004.safetensors` the pieces of shard 0 of 4.
namespace giro::detail {

// `file` is the name of the file of whole leaves, e.g. "state.safetensors".
std::string shard_name(std::string_view file, const Shard& shard);

// Metadata for write_safetensors that records where the pieces belong.
std::map<std::string, std::string> piece_metadata(const std::vector<Leaf>& pieces);

// Writes the whole leaves of the state and of what callbacks remember, or with `shard` the pieces of both. The files
// are durable when this returns, except for their names.
std::vector<Manifest::File> write_leaves(FileSystem& files, const std::string& unit, const std::vector<Leaf>& leaves,
                                         const std::vector<Leaf>& arrays, const std::optional<Shard>& shard = {});

// The elements of a leaf that this process holds; none: count 0.
struct LocalPiece {
  Piece piece;
  std::int64_t count = 0;
};
// By path. Leaves that are not listed are held whole.
using HeldParts = std::map<std::string, LocalPiece>;

// Reads the parts of leaves that this process holds, from files of whole leaves and of pieces.
class ShardReader {
 public:
  // `max_bytes` is the total size of the files; the leaves cannot be larger.
  explicit ShardReader(std::uint64_t max_bytes, HeldParts held = {}) : max_bytes_(max_bytes), held_(std::move(held)) {}

  // Adds the tensors of a file, all of which are whole leaves. Reads only the bytes that are held here.
  // Error(corrupt_data), naming `path`, if there is such a leaf already; those of `read`.
  void add_whole_leaves(const safetensors::Layout& layout, const safetensors::ReadBytes& read, const std::string& path);
  // Adds the shards' files one after the other, in order. Error(corrupt_data), naming `path`, if a file does not say
  // where its pieces belong, or if they do not continue the previous pieces; those of `read`.
  void add_shard(const safetensors::Layout& layout, const safetensors::ReadBytes& read, const std::string& path);
  // The leaves, in the order in which they began: whole, or the piece that is held here. A leaf whose shape differs
  // from that of the held part is returned as an empty piece with its shape. Error(corrupt_data), naming `unit`, if one
  // is incomplete.
  std::vector<Leaf> finish(const std::string& unit);
  // Keeps their memory alive.
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  struct Joined {
    std::string path;
    DType dtype;
    Shape whole;
    bool in_shards;
    std::int64_t begin, end;  // the elements held here
    char* memory;             // of these elements
    std::int64_t next = 0;    // the next element expected of the files

    std::string expected() const;  // "f32(2, 5)"
  };
  Joined& begin(const safetensors::Layout::Stored& stored, const Shape& whole, bool in_shards, const std::string& path);
  // Reads those of the next `count` elements that are held here; the file stores the elements from byte `at` on.
  static void read_held(Joined& joined, std::int64_t count, std::uint64_t at, const safetensors::ReadBytes& read);

  std::uint64_t max_bytes_, bytes_ = 0;  // of the whole leaves
  HeldParts held_;
  std::vector<Joined> joined_;
  std::map<std::string, std::size_t> index_;
  std::shared_ptr<std::vector<std::unique_ptr<char[]>>> memory_ =
      std::make_shared<std::vector<std::unique_ptr<char[]>>>();
};

}  // namespace giro::detail
