#pragma once

#include <cstdint>
#include <string>

#include <giro/runtime/dtype.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/shape.h>

namespace giro::detail {

// NumPy's format of one array (numpy.lib.format): a header, which is a Python dictionary, and then the elements.

// The header of version 1.0 for elements in this machine's byte order and C order; its length is a multiple of 64
// bytes. `dtype` must not be bf16, which NumPy does not have.
std::string npy_header(DType dtype, const Shape& shape);

struct NpyFile {
  DType dtype;
  Shape shape;
  std::uint64_t elements = 0;  // where they begin, in bytes
};
// Reads the header of the file at `path`, of version 1.0, 2.0 or 3.0. The elements fill the rest of the file. Errors:
// not_found, io; corrupt_data if it is not an NPY file, or is shorter or longer than its header says; unsupported for
// elements that no DType stores, in the other byte order, or in Fortran order, and for more than Shape::kMaxRank axes.
// Each names the file.
NpyFile read_npy_header(const std::string& path, FileSystem& files);

}  // namespace giro::detail
