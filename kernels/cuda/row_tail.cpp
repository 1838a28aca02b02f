#include "kernels/cuda/row_tail.h"

#include <fmt/format.h>

#include <cstdint>

#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {
namespace {

// The host reads `published` first, then the row, so every value must arrive before the count. The count's release
// covers all that its thread has observed, also what other lanes stored before the warp's barrier. So only the thread
// that stores the count needs it.
constexpr const char* kTail = R"cuda(  if (!giro::is_last_block(arrivals, gridDim.x) || threadIdx.x >= 32) return;
  const int lane = threadIdx.x;
  const giro::i64 number = *row;
  if (lane == 0) {{
{counters}  }}
  __syncwarp();
  volatile double* const to = ring + (number % capacity) * row_columns + first;
{columns}{end})cuda";

static_assert(ops::Publish::kMostColumns <= 32, "a lane of one warp each");

constexpr const char* kEnd = R"cuda(  __syncwarp();
  if (lane == 0) {
    *row = number + 1;
    asm volatile("st.release.sys.s64 [%0], %1;" :: "l"(published), "l"(number + 1) : "memory");
  }
)cuda";

}  // namespace

void add_to_key(const ops::Publish& row, std::vector<std::int64_t>& key) {
  for (const std::size_t number : {row.scalars.size(), row.counters.size(), std::size_t{row.ends_row()}}) {
    key.push_back(static_cast<std::int64_t>(number));
  }
  for (const Tensor& scalar : row.scalars) key.push_back(static_cast<std::int64_t>(scalar.dtype()));
}

std::string tail_parameters(const ops::Publish& row) {
  std::string parameters =
      "double* ring, giro::i64* published, giro::i64* row, giro::u32* arrivals, "
      "giro::i64 capacity, giro::i64 row_columns, giro::i64 first, ";
  for (std::size_t c = 0; c < row.scalars.size(); ++c) {
    parameters += fmt::format("const {}* s{}, ", storage_type(row.scalars[c].dtype()), c);
  }
  for (std::size_t c = 0; c < row.counters.size(); ++c) {
    parameters += fmt::format("giro::i64* k{0}, giro::i64 by{0}, ", c);
  }
  return parameters;
}

std::string tail_source(const ops::Publish& row) {
  std::string counters, columns;
  for (std::size_t c = 0; c < row.counters.size(); ++c) counters += fmt::format("    *k{0} += by{0};\n", c);
  for (std::size_t c = 0; c < row.scalars.size(); ++c) {
    columns += fmt::format("  if (lane == {0}) to[{0}] = giro::as_double(giro::value(*s{0}));\n", c);
  }
  return fmt::format(fmt::runtime(kTail), fmt::arg("counters", counters), fmt::arg("columns", columns),
                     fmt::arg("end", row.ends_row() ? kEnd : ""));
}

std::vector<void*> tail_arguments(const ops::Publish& row, unsigned int* arrivals) {
  const auto number = [](auto value) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(value)); };
  std::vector<void*> arguments{row.ring.values,           row.ring.published,      row.row().raw(),  arrivals,
                               number(row.ring.capacity), number(row.row_columns), number(row.first)};
  for (const Tensor& scalar : row.scalars) arguments.push_back(scalar.raw());
  for (const ops::Counter& counter : row.counters) {
    arguments.push_back(counter.count.raw());
    arguments.push_back(number(counter.by));
  }
  return arguments;
}

}  // namespace giro::cuda
