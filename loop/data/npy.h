#pragma once

#include <memory>

#include <giro/loop/data/paths.h>
#include <giro/loop/data/row_source.h>
#include <giro/runtime/file_system.h>

namespace giro::data {

// The rows of an array in NumPy's format, which are its first axis, or those of several such files, one after the
// other. They are read when a batch is made, so they need not fit into memory; use prefetch:
//
//   giro::Dataset({{"x", data::npy("x.npy")}, {"y", data::npy({"y0.npy", "y1.npy"})}})
//
// Errors: invalid_argument for no path; shape_mismatch for an array of shape (), and for files whose dtypes or shapes
// of a row differ; unsupported for elements that no DType stores (bool, uint8, int32, int64, float16, float32 and
// float64 are stored), for the other byte order, and for Fortran order; not_found, io; corrupt_data for what is no such
// file or is not of the size that its header says, and, when a batch is made, for a file that has become shorter. Each
// names the file.
std::shared_ptr<const RowSource> npy(const Paths& paths, std::shared_ptr<FileSystem> files = posix_file_system());

}  // namespace giro::data
