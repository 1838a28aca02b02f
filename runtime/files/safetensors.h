#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/state.h>

namespace giro {

// Files of named tensors in the safetensors format (https://github.com/huggingface/safetensors).

// Writes host tensors and string metadata. With `dtype`, floating tensors are converted to it: rounded to nearest even,
// as torch's Tensor.to does, and NaN stays NaN. Errors: invalid_argument (a repeated name, text that is not UTF-8, more
// than 100,000 tensors and metadata, a dtype that is not floating, or a finite value that the dtype would make
// infinite, with the tensor's name), device_mismatch (a tensor that is not on the host), io.
void write_safetensors(FileSystem::Writer& file, const std::vector<Leaf>& tensors,
                       const std::map<std::string, std::string>& metadata, std::optional<DType> dtype = {});

// A file's tensors, on the host, in the order of their data; `memory` keeps them alive.
struct Safetensors {
  std::vector<Leaf> tensors;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const void> memory;
};
// Trusts nothing in the file. Errors: not_found, io, corrupt_data (what the format forbids: a header that is too large
// or not JSON, offsets that overlap, leave holes or do not fit the shapes, trailing bytes, repeated names), unsupported
// (a dtype that giro does not have, more axes than Shape::kMaxRank, or more than 100,000 tensors and metadata); each
// names the file.
Safetensors read_safetensors(FileSystem& files, const std::string& path);
// The metadata alone. Reads only the header, and does not check the data. Errors as above.
std::map<std::string, std::string> read_safetensors_metadata(FileSystem& files, const std::string& path);

}  // namespace giro
