#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/loop/data/paths.h>
#include <giro/runtime/files/file_system.h>

namespace giro::data {

struct CsvOptions {
  // Each feature's name, and the names of its columns in the header.
  std::vector<std::pair<std::string, std::vector<std::string>>> features;
  char delimiter = ',';
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// Numeric columns of CSV files (RFC 4180), read into memory:
//
//   auto houses = data::csv("houses.csv", {.features = {{"x", {"rooms", "area"}}, {"y", {"price"}}}});
//
// Each feature is f32 (N, columns), (N, 1) for a single column, like a dense layer's input and output. The first line
// of each file has the names of the columns, the same in all files; other columns may hold anything. A line ends in LF
// or CRLF; a quoted field may hold delimiters, line ends, and quotes written twice. A number may have blanks around it.
//
// Errors, naming file, line and column: corrupt_data for a field of these columns that is not a finite number, a line,
// even an empty one, with more or fewer fields than the header, misplaced quotes, a header that differs from the first
// file's, an empty file or no rows; not_found for a column that does not exist, with the nearest name, or for the file;
// invalid_argument for no path, no features, a feature without columns, or a delimiter that is a quote or a line end;
// io.
Dataset csv(const Paths& paths, const CsvOptions& options);

}  // namespace giro::data
