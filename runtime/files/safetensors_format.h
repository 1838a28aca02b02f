#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

// What the reader and the writer of safetensors files share, and reading by parts.
namespace giro::detail::safetensors {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and its numbers are read and written unchanged");

inline constexpr std::uint64_t kMaxHeader = 100'000'000;  // bytes; the format's limit
inline constexpr std::size_t kMaxEntries = 100'000;       // names of a header, which limits their memory to tens of MiB
inline constexpr std::size_t kPrefix = sizeof(std::uint64_t);
inline constexpr std::size_t kDataAlignment = 64;
inline constexpr std::string_view kMetadata = "__metadata__";

// The format's names of dtypes, in the order of DType.
inline constexpr std::string_view kDTypes[] = {"F32", "BF16", "F16", "F64", "I32", "I64", "U8", "BOOL"};

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
