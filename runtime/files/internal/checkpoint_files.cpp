#include "runtime/files/internal/checkpoint_files.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <giro/runtime/files/safetensors.h>

#include "runtime/files/internal/checksum_writer.h"
#include "runtime/files/internal/shard_files.h"
#include "runtime/files/internal/store_names.h"

namespace giro::detail {
namespace {

std::vector<Leaf> chosen(const std::vector<Leaf>& leaves, bool pieces) {
  std::vector<Leaf> result;
  std::copy_if(leaves.begin(), leaves.end(), std::back_inserter(result),
               [&](const Leaf& leaf) { return leaf.piece.has_value() == pieces; });
  return result;
}

Manifest::File write_file(FileSystem& files, const std::string& unit, std::string_view name,
                          const std::vector<Leaf>& leaves, const std::map<std::string, std::string>& metadata = {},
                          int shards = 1) {
  constexpr std::uint64_t kPartsOfFiles = 256;  // over all shards, because one manifest lists the parts of all
  ChecksumWriter writer(files.create(path_of(unit, name)), kPartsOfFiles / static_cast<std::uint64_t>(shards));
  write_safetensors(writer, leaves, metadata);
  writer.sync();
  writer.close();
  return {std::string(name), writer.bytes(), writer.digits(), writer.parts()};
}

}  // namespace

std::vector<Manifest::File> write_whole_leaves(FileSystem& files, const std::string& unit,
                                               const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays) {
  std::vector<Manifest::File> written{write_file(files, unit, kStateName, chosen(leaves, /*pieces=*/false))};
  const std::vector<Leaf> memory = chosen(arrays, /*pieces=*/false);
  if (!memory.empty()) written.push_back(write_file(files, unit, kMemoryName, memory));
  return written;
}

std::vector<Manifest::File> write_shard(FileSystem& files, const std::string& unit, const Shard& shard,
                                        const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays) {
  const auto write = [&](std::string_view name, const std::vector<Leaf>& pieces) {
    return write_file(files, unit, shard_name(name, shard), pieces, piece_metadata(pieces), shard.count);
  };
  std::vector<Manifest::File> written{write(kStateName, chosen(leaves, /*pieces=*/true))};
  const std::vector<Leaf> memory = chosen(arrays, /*pieces=*/true);
  if (!memory.empty()) written.push_back(write(kMemoryName, memory));
  return written;
}

void write_manifest(FileSystem& files, const std::string& unit, Manifest manifest) {
  const std::string text = manifest_text(std::move(manifest));
  const auto writer = files.create(path_of(unit, kManifestName));
  writer->write(text.data(), text.size());
  writer->sync();
  writer->close();
}

}  // namespace giro::detail
