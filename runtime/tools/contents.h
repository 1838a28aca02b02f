#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/state.h>

namespace giro::tools {

// The tensors found at a path.
struct Contents {
  std::string path;  // of the file or the checkpoint
  std::vector<Leaf> tensors;
  std::shared_ptr<const void> memory;           // keeps the tensors alive
  std::map<std::string, std::string> metadata;  // of a file
  std::optional<CheckpointRecord> record;       // of a checkpoint that is a directory, or was found in one
  Archive archive = Archive();                  // what its run remembers
};

// Reads a safetensors file, a checkpoint, or the newest undamaged one in a directory of checkpoints; prints why newer
// ones were skipped. Errors: those of load, or for a directory those of load_checkpoint.
Contents load_contents(const std::string& path);

// A name from a file, which may contain anything, made fit for one line of a terminal.
std::string for_terminal(std::string_view name);

}  // namespace giro::tools
