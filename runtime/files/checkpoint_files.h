#pragma once

#include <string>
#include <vector>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/state.h>

#include "runtime/files/manifest.h"

// Writes the files of one checkpoint. They are durable when each call returns, except for their names.
namespace giro::detail {

// The whole leaves of the state, and of what callbacks remember.
std::vector<Manifest::File> write_whole_leaves(FileSystem& files, const std::string& unit,
                                               const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays);
// The pieces of both.
std::vector<Manifest::File> write_shard(FileSystem& files, const std::string& unit, const Shard& shard,
                                        const std::vector<Leaf>& leaves, const std::vector<Leaf>& arrays);

}  // namespace giro::detail
