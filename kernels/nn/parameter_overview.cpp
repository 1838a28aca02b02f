#include <giro/kernels/nn/parameter_overview.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <giro/runtime/host_array.h>
#include <giro/runtime/stream.h>

#include "kernels/elementwise.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using Row = std::vector<std::string>;

// "65,138,688"
std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto i = static_cast<std::int64_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  return digits;
}

// Like Python's "{:.3}": 3 digits, and always recognizable as a floating-point number.
std::string three_digits(double number) {
  const std::string text = fmt::format("{:.3g}", number);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

std::pair<double, double> mean_and_deviation(const HostArray& array) {
  std::vector<double> numbers(static_cast<std::size_t>(array.shape().count()));
  if (numbers.empty()) return {0, 0};
  ops::cast(Tensor(numbers.data(), DType::f64, array.shape(), Device::cpu()), array.tensor(), Stream(Device::cpu()));
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {mean, std::sqrt(squares / count)};
}

std::string table(const std::vector<Row>& rows, std::size_t max_rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string rule = "+";
  for (const std::size_t width : widths) rule += std::string(width + 2, '-') + "+";
  std::string text = rule;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (max_rows > 0 && r > max_rows) {
      text += "\n[...]";
      break;
    }
    text += "\n|";
    for (std::size_t i = 0; i < widths.size(); ++i) text += fmt::format(" {:<{}} |", rows[r][i], widths[i]);
    if (r == 0) text += "\n" + rule;
  }
  return text + "\n" + rule;
}

}  // namespace

std::string parameter_overview(const State& state, const ParameterOverviewOptions& options) {
  const std::vector<Leaf> leaves = state.flatten(options.prefix);
  if (leaves.empty()) {
    throw_error(ErrorCode::not_found, "parameter_overview: there is no leaf below '{}'", options.prefix);
  }
  std::vector<Row> rows{{"Name", "Shape", "Dtype", "Size"}};
  if (options.stats) rows.front().insert(rows.front().end(), {"Mean", "Std"});
  if (options.sharding) rows.front().emplace_back("Sharding");
  std::int64_t elements = 0, bytes = 0;
  const std::size_t listed = options.max_rows > 0 ? std::min(options.max_rows, leaves.size()) : leaves.size();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& [path, value, piece] = leaves[i];
    elements += value.count();
    bytes += static_cast<std::int64_t>(value.bytes());
    const bool is_below = !options.prefix.empty() && path.size() > options.prefix.size();
    Row row{is_below ? path.substr(options.prefix.size() + 1) : path, to_string(value.shape()),
            std::string(name_of(value.dtype())), with_commas(value.count())};
    if (options.stats && i < listed) {
      const auto [mean, deviation] = mean_and_deviation(HostArray::copy_of(value, state.stream()));
      row.insert(row.end(), {three_digits(mean), three_digits(deviation)});
    } else if (options.stats) {
      row.resize(row.size() + 2);
    }
    if (options.sharding) {
      row.push_back(
          piece ? fmt::format("[{}, {}) of {}", piece->begin, piece->begin + value.count(), to_string(piece->whole))
                : "()");
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("{}\nTotal: {} -- {} bytes", table(rows, options.max_rows), with_commas(elements),
                     with_commas(bytes));
}

}  // namespace giro
