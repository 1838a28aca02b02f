#pragma once

#include <string>
#include <vector>

#include <giro/runtime/file_system.h>
#include <giro/runtime/state.h>

#include "runtime/internal/manifest.h"

// The files of one checkpoint, durable once each call returns, but for their names.
namespace giro::detail {

// The whole leaves among those of the state and of what callbacks remember.
std::vector<Manifest::File> write_wholes(FileSystem& files, const std::string& unit, const std::vector<Leaf>& leaves,
                                         const std::vector<Leaf>& arrays);
// The pieces among them.
std::vector<Manifest::File> write_shard(FileSystem& files, const std::string& unit, const Shard& shard,
                                        const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays);
void write_manifest(FileSystem& files, const std::string& unit, Manifest manifest);

}  // namespace giro::detail
