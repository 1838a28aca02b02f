#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

// Reads a safetensors file by parts.
namespace giro::detail::safetensors {

// The contents of a file's header.
struct Layout {
  struct Stored {
    std::string name;
    DType dtype;
    Shape shape;
    std::uint64_t begin;  // the byte of the file at which its data begins
  };
  std::vector<Stored> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads bytes of a file, from `begin` on.
using ReadBytes = std::function<void(std::uint64_t begin, std::size_t size, void* data)>;
// Reads the header of a file of `file_bytes` bytes, and checks it against that size. Errors as for read_safetensors.
Layout read_layout(const ReadBytes& read, std::uint64_t file_bytes, const std::string& path);

}  // namespace giro::detail::safetensors
