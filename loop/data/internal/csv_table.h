#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/paths.h>
#include <giro/runtime/file_system.h>

namespace giro::data {

// Reads columns of CSV files with the same header, one after the other: for each group of columns the values of every
// row, (rows, columns of the group). Takes the memory of the largest file beside that of the values. Errors: those of
// data::csv.
using CsvGroups = std::vector<std::pair<std::string, std::vector<std::string>>>;
std::vector<std::vector<float>> read_csv(const Paths& paths, const CsvGroups& groups, char delimiter,
                                         FileSystem& files);

}  // namespace giro::data
