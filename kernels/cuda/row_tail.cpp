#include "kernels/cuda/row_tail.h"

#include <fmt/format.h>

#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {
namespace {

// The host reads `published` first and then the row: every value has to be there before it. A fence orders the later
// stores of its own thread alone, after all that this thread has seen, through a barrier too: so the thread that stores
// the count makes it, after the warp's barrier, and fences of the other lanes would add nothing.
constexpr const char* kTail = R"cuda(  if (!giro::is_last_block(arrivals) || threadIdx.x >= 32) return;
  const int lane = threadIdx.x;
  const giro::i64 number = *row;
  if (lane == 0) {{
{counters}  }}
  __syncwarp();
  volatile double* const to = ring + (number % {capacity}) * {row_columns} + {first};
{columns}{end})cuda";

static_assert(RowPart::kMaxColumns <= 32, "a lane of one warp each");

constexpr const char* kEnd = R"cuda(  __syncwarp();
  if (lane == 0) {
    *row = number + 1;
    __threadfence_system();
    *static_cast<volatile giro::i64*>(published) = number + 1;
  }
)cuda";

}  // namespace

void RowTail::add_to(std::vector<std::int64_t>& key) const {
  for (const std::int64_t number : {ring.capacity, std::int64_t{part.row_columns}, std::int64_t{part.first},
                                    std::int64_t{part.columns}, std::int64_t{part.num_counters}}) {
    key.push_back(number);
  }
  for (int c = 0; c < part.columns; ++c) key.push_back(static_cast<std::int64_t>(part.dtypes[c]));
  key.insert(key.end(), part.amounts, part.amounts + part.num_counters);
}

std::string tail_parameters(const RowPart& part) {
  std::string parameters = "double* ring, giro::i64* published, giro::i64* row, giro::u32* arrivals, ";
  for (int c = 0; c < part.columns; ++c) {
    parameters += fmt::format("const {}* s{}, ", storage_type(part.dtypes[c]), c);
  }
  for (int c = 0; c < part.num_counters; ++c) parameters += fmt::format("giro::i64* k{}, ", c);
  return parameters;
}

std::string tail_source(const RowPart& part, const RowRing& ring) {
  std::string counters, columns;
  for (int c = 0; c < part.num_counters; ++c) counters += fmt::format("    *k{} += {};\n", c, part.amounts[c]);
  for (int c = 0; c < part.columns; ++c) {
    columns += fmt::format("  if (lane == {0}) to[{0}] = giro::as_double(giro::value(*s{0}));\n", c);
  }
  return fmt::format(fmt::runtime(kTail), fmt::arg("counters", counters), fmt::arg("columns", columns),
                     fmt::arg("capacity", ring.capacity), fmt::arg("row_columns", part.row_columns),
                     fmt::arg("first", part.first), fmt::arg("end", part.ends_row() ? kEnd : ""));
}

std::vector<void*> tail_arguments(const RowTail& tail, unsigned int* arrivals) {
  std::vector<void*> arguments{tail.ring.values, tail.ring.published, tail.row.raw(), arrivals};
  for (int c = 0; c < tail.part.columns; ++c) arguments.push_back(const_cast<void*>(tail.part.scalars[c]));
  arguments.insert(arguments.end(), tail.part.counters, tail.part.counters + tail.part.num_counters);
  return arguments;
}

}  // namespace giro::cuda
