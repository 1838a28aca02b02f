#pragma once

#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/paths.h>
#include <giro/runtime/files/file_system.h>

namespace giro::data {

// Reads columns of CSV files that have the same header. Returns for each group of columns the values of all rows,
// (rows, columns of the group). Needs memory for the largest file in addition to the values. Errors: those of
// data::csv.
using CsvGroups = std::vector<std::pair<std::string, std::vector<std::string>>>;
std::vector<std::vector<float>> read_csv(const Paths& paths, const CsvGroups& groups, char delimiter,
                                         FileSystem& files);

}  // namespace giro::data
