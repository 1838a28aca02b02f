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

// The files of a checkpoint that several processes write together: each has the pieces of leaves that one of them
// holds, `state-00001-of-00004.safetensors` those of shard 0 of 4.
namespace giro::detail {

// `file` is the name of the file of whole leaves, such as "state.safetensors".
std::string shard_name(std::string_view file, const Shard& shard);

// For write_safetensors: where the pieces belong.
std::map<std::string, std::string> piece_metadata(const std::vector<Leaf>& pieces);

// Puts leaves together.
class PieceJoiner {
 public:
  // Of files that have so many bytes in all.
  explicit PieceJoiner(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // One shard's file after the other, in their order. Error(corrupt_data), naming `path`, where it does not say what it
  // has pieces of, or they do not continue those before.
  void add(const Safetensors& file, const std::string& path);
  // The whole leaves, in the order in which they began. Error(corrupt_data), naming `unit`, where one has no end.
  std::vector<Leaf> finish(const std::string& unit);
  // Keeps their memory alive.
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  struct Joined {
    Leaf leaf;
    std::int64_t next = 0;  // element that is to come
  };
  std::uint64_t most_bytes_, bytes_ = 0;  // of the leaves
  std::vector<Joined> joined_;
  std::map<std::string, std::size_t> index_;
  std::shared_ptr<std::vector<std::unique_ptr<char[]>>> memory_ =
      std::make_shared<std::vector<std::unique_ptr<char[]>>>();
};

}  // namespace giro::detail
