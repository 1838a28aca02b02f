#include <giro/loop/data/csv.h>

#include <cstdint>

#include "loop/data/csv_table.h"
#include "runtime/throw_error.h"

namespace giro::data {

Dataset csv(const Paths& paths, const CsvOptions& options) {
  if (paths.empty()) throw_invalid("csv: no path, expected at least one file");
  if (options.features.empty()) throw_invalid("csv: no features, expected names and their columns");
  for (const auto& [name, columns] : options.features) {
    if (columns.empty()) throw_invalid("csv: feature '{}' has no columns", name);
  }
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    throw_invalid("csv: the delimiter is {:?}, expected neither a quote nor a line end", delimiter);
  }
  std::vector<std::vector<float>> values = read_csv(paths, options.features, delimiter, *options.files);
  Dataset::Arrays arrays;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, columns] = options.features[i];
    const auto width = static_cast<std::int64_t>(columns.size());
    const auto rows = static_cast<std::int64_t>(values[i].size()) / width;
    arrays.emplace_back(name, HostArray(std::move(values[i]), {rows, width}));
  }
  return Dataset(arrays);
}

}  // namespace giro::data
