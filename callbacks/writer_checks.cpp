#include "callbacks/writer_checks.h"

#include <algorithm>
#include <variant>

#include "runtime/throw_error.h"

namespace giro::detail {

void expect_open(const std::string& writer, bool is_open) {
  if (!is_open) throw_invalid("{}: it is closed", writer);
}

void expect_writable(const std::string& writer, bool is_open, const MetricRecord& record) {
  expect_open(writer, is_open);
  if (record.elapsed.steps < 0) throw_invalid("{}: the step is {}, expected 0 or more", writer, record.elapsed.steps);
  const auto has_empty_tag = [](const auto& values) {
    return std::ranges::any_of(values, [](const auto& tagged) { return tagged.first.path().empty(); });
  };
  if (std::visit(has_empty_tag, record.values)) throw_invalid("{}: a tag is empty", writer);
}

}  // namespace giro::detail
