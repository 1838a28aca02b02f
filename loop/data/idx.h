#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/tensor.h>

namespace giro::data {

// The contents of an IDX file, the format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, the element
// type, the number of axes, a 32-bit size per axis, then the elements; all of it big-endian.
struct IdxFile {
  std::string path;         // the file that was read
  std::uint32_t magic = 0;  // its first four bytes: 0x00000803 for u8 with three axes
  std::shared_ptr<const void> memory;
  Tensor values;  // in that memory, on the host, in this machine's byte order
};

// Reads `path`, or `path`.gz if there is no such file. Detects gzip by the contents, not by the name. Supports u8, i32,
// f32 and f64 elements with up to Shape::kMaxRank axes. Allocates memory as bytes are read, not by the size in the
// header. Errors: not_found, io, unsupported (i8 and i16 elements, more axes), corrupt_data (not an IDX file,
// truncated, or longer than its header declares).
IdxFile read_idx(const std::string& path, FileSystem& files = *posix_file_system());

}  // namespace giro::data
