#include "kernels/cuda/row_tail.h"

#include <fmt/format.h>

#include <cstdint>

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
  volatile double* const to = ring + (number % capacity) * row_columns + first;
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
  for (const int number : {part.columns, part.num_counters, part.ends_row() ? 1 : 0}) key.push_back(number);
  for (int c = 0; c < part.columns; ++c) key.push_back(static_cast<std::int64_t>(part.dtypes[c]));
}

std::string tail_parameters(const RowPart& part) {
  std::string parameters =
      "double* ring, giro::i64* published, giro::i64* row, giro::u32* arrivals, "
      "giro::i64 capacity, giro::i64 row_columns, giro::i64 first, ";
  for (int c = 0; c < part.columns; ++c) {
    parameters += fmt::format("const {}* s{}, ", storage_type(part.dtypes[c]), c);
  }
  for (int c = 0; c < part.num_counters; ++c) parameters += fmt::format("giro::i64* k{0}, giro::i64 by{0}, ", c);
  return parameters;
}

std::string tail_source(const RowPart& part) {
  std::string counters, columns;
  for (int c = 0; c < part.num_counters; ++c) counters += fmt::format("    *k{0} += by{0};\n", c);
  for (int c = 0; c < part.columns; ++c) {
    columns += fmt::format("  if (lane == {0}) to[{0}] = giro::as_double(giro::value(*s{0}));\n", c);
  }
  return fmt::format(fmt::runtime(kTail), fmt::arg("counters", counters), fmt::arg("columns", columns),
                     fmt::arg("end", part.ends_row() ? kEnd : ""));
}

std::vector<void*> tail_arguments(const RowTail& tail, unsigned int* arrivals) {
  const auto number = [](std::int64_t value) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(value)); };
  std::vector<void*> arguments{
      tail.ring.values,           tail.ring.published,           tail.row.raw(),         arrivals,
      number(tail.ring.capacity), number(tail.part.row_columns), number(tail.part.first)};
  for (int c = 0; c < tail.part.columns; ++c) arguments.push_back(const_cast<void*>(tail.part.scalars[c]));
  for (int c = 0; c < tail.part.num_counters; ++c) {
    arguments.push_back(tail.part.counters[c]);
    arguments.push_back(number(tail.part.amounts[c]));
  }
  return arguments;
}

}  // namespace giro::cuda
