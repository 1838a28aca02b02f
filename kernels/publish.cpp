#include <giro/kernels/publish.h>

#include <algorithm>
#include <cstddef>

#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

void ScalarRing::begin(std::int64_t first) const noexcept {
  for (std::int64_t row = first - capacity; row < first; ++row) {
    std::fill_n(slot(row), row_words(), std::uint64_t{static_cast<std::uint32_t>(row)} << 32);
  }
}

void publish_row(const ScalarRing& ring, const Tensor& row, const std::vector<Tensor>& scalars, const Stream& stream) {
  constexpr std::string_view op = "publish_row";
  detail::expect_fit(op, "row: i64()", {&row});
  detail::expect_on_device(op, row, stream.device());
  if (!std::has_single_bit(static_cast<std::uint64_t>(ring.capacity))) {
    throw_invalid("publish_row: a ring of {} rows, expected a power of two", ring.capacity);
  }
  if (static_cast<std::int64_t>(scalars.size()) != ring.columns) {
    throw_invalid("publish_row: {} scalars, expected {}, as in the ring's rows", scalars.size(), ring.columns);
  }
  for (const Tensor& scalar : scalars) {
    detail::expect_fit(op, "scalar: *()", {&scalar});
    detail::expect_on_device(op, scalar, stream.device());
  }
  // A kernel publishes up to kMaxColumns scalars, one per lane. The last kernel counts the row.
  std::size_t first = 0;
  do {
    const auto begin = scalars.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t columns = std::min(ops::Publish::kMaxColumns, scalars.size() - first);
    const bool ends_row = first + columns == scalars.size();
    queue(ops::Publish{ring,
                       ends_row ? Tensor() : row,
                       {},
                       {begin, begin + static_cast<std::ptrdiff_t>(columns)},
                       ends_row ? row : Tensor(),
                       static_cast<std::int64_t>(first)},
          stream);
    first += columns;
  } while (first < scalars.size());
}

Program::Node ops::node_of(std::string name, const RunAndPublish& op) {
  Program::Node both = expr::node_of(std::move(name), op.expression);
  const Program::Node row = detail::node_of("", op.row);
  both.writes.insert(both.writes.end(), row.writes.begin(), row.writes.end());
  both.reads.insert(both.reads.end(), row.reads.begin(), row.reads.end());
  both.flops += row.flops;
  both.bytes += row.bytes;
  return both;
}

}  // namespace giro
