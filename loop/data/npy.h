#pragma once

#include <memory>

#include <giro/loop/data/paths.h>
#include <giro/loop/data/row_source.h>
#include <giro/runtime/files/file_system.h>

namespace giro::data {

// The rows (the first axis) of an array in NumPy's format, or of several such files in sequence. They are read when a
// batch is made, so they need not fit into memory; use prefetch:
//
//   giro::Dataset({{"x", data::npy("x.npy")}, {"y", data::npy({"y0.npy", "y1.npy"})}})
//
// Errors: invalid_argument for no path; shape_mismatch for an array of shape (), and for files that differ in dtype or
// row shape; unsupported for elements other than bool, uint8, int32, int64, float16, float32 and float64, for the other
// byte order, and for Fortran order; not_found, io; corrupt_data for a file in another format or of another size than
// its header implies, and, when a batch is made, for one that has become shorter. Each names the file.
std::shared_ptr<const RowSource> npy(const Paths& paths, std::shared_ptr<FileSystem> files = posix_file_system());

}  // namespace giro::data
