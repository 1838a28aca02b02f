#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/files/safetensors.h>
#include <giro/runtime/state.h>

namespace giro {

// Exchanges weights with other programs: one safetensors file, which Python reads and writes as a dictionary of arrays.
//
//   giro::save("weights.safetensors", state.flatten("params"));   // safetensors.numpy.load_file("weights.safetensors")
//   giro::save("half.safetensors", state.flatten("params"), {.dtype = giro::DType::bf16});
//
//   auto weights = giro::load("from_python.safetensors");  // safetensors.numpy.save_file({...}, "from_python...")
//   giro::load_into(state, weights.tensors, {.only = {"params"}});
//
// The file state.safetensors of a checkpoint is such a file too (giro/runtime/files/checkpoint_store.h).

struct SaveOptions {
  // Floating leaves are stored in this dtype, e.g. bf16, rounded as in write_safetensors; the others as they are. To
  // load such a file into leaves of another dtype, set LoadOptions::convert.
  std::optional<DType> dtype = {};
  // Renames leaves to their names in the file, as LoadOptions::rename does in the other direction:
  // {"params/layer*/kernel", "model.layers.*.weight"}.
  std::vector<std::pair<std::string, std::string>> rename = {};
  std::map<std::string, std::string> metadata = {};  // of the file
};

// Writes leaves, on any devices, or the saved collections of a state. Once this returns, `path` holds all of them;
// after an error it is unchanged. A state is written as it is after the work queued on its stream. If another stream
// still writes some leaves, the caller must wait for it first. Errors: those of write_safetensors; io, out_of_memory,
// device; invalid_argument while the state's step is being recorded, for a leaf of which this process holds only a
// piece, and for two patterns of `rename` with different numbers of wildcards.
void save(const std::string& path, const std::vector<Leaf>& leaves, const SaveOptions& options = {},
          FileSystem& files = *posix_file_system());
void save(const std::string& path, const State& state, const SaveOptions& options = {},
          FileSystem& files = *posix_file_system());

// Reads a file's leaves into host memory; they live as long as the result or a copy of its `memory`. Errors: those of
// read_safetensors.
Safetensors load(const std::string& path, FileSystem& files = *posix_file_system());

}  // namespace giro
