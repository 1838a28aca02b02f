#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/safetensors.h>
#include <giro/runtime/state.h>

// The files of a checkpoint that several processes write together. Each file has the pieces of leaves that one process
// holds, e.g. `state-00001-of-00004.safetensors` the pieces of shard 0 of 4.
namespace giro::detail {

// `file` is the name of the file of whole leaves, e.g. "state.safetensors".
std::string shard_name(std::string_view file, const Shard& shard);

// Metadata for write_safetensors that says where the pieces belong.
std::map<std::string, std::string> piece_metadata(const std::vector<Leaf>& pieces);

// Joins pieces to whole leaves.
class PieceJoiner {
 public:
  // `most_bytes` is the total size of the files; the leaves cannot be larger.
  explicit PieceJoiner(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Adds the shards' files one after the other, in order. Error(corrupt_data), naming `path`, if a file does not say
  // where its pieces belong, or if they do not continue the pieces before.
  void add(const Safetensors& file, const std::string& path);
  // The whole leaves, in the order in which they began. Error(corrupt_data), naming `unit`, if one is incomplete.
  std::vector<Leaf> finish(const std::string& unit);
  // Keeps their memory alive.
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  struct Joined {
    Leaf leaf;
    std::int64_t next = 0;  // the next element expected
  };
  std::uint64_t most_bytes_, bytes_ = 0;  // of the leaves
  std::vector<Joined> joined_;
  std::map<std::string, std::size_t> index_;
  std::shared_ptr<std::vector<std::unique_ptr<char[]>>> memory_ =
      std::make_shared<std::vector<std::unique_ptr<char[]>>>();
};

}  // namespace giro::detail
