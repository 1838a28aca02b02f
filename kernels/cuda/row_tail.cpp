#include "kernels/cuda/row_tail.h"

#include <fmt/format.h>

#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {
namespace {

// A volatile store is relaxed, with system scope (PTX ISA, Memory Consistency Model), which suffices for words tagged
// with the row's number (publish.h).
constexpr const char* kTail = R"cuda(  if (!giro::is_last_block(arrivals, gridDim.x) || threadIdx.x >= 32) return;
  const int lane = threadIdx.x;
  const giro::i64 number = *row;
  if (lane == 0) {{
{counters}  }}
  __syncwarp();
  volatile giro::u64* const to = words + (number & capacity - 1) * row_words + 2 * (first + lane);
  const giro::u64 tag = giro::u64(giro::u32(number)) << 32;
{release}{columns}{end})cuda";

static_assert(ops::Publish::kMaxColumns <= 32, "each column needs a lane of one warp");

// Orders each lane's words after everything that earlier kernels wrote.
constexpr const char* kRelease = R"cuda(  asm volatile("fence.acq_rel.sys;" ::: "memory");
)cuda";

constexpr const char* kStoreColumns = R"cuda(  if (lane < {count}) {{
    double number_of_lane = 0;
{scalars}    const giro::u64 bits = __double_as_longlong(number_of_lane);
    to[0] = tag | giro::u32(bits);
    to[1] = tag | bits >> 32;
  }}
)cuda";

constexpr const char* kEnd = R"cuda(  __syncwarp();
  if (lane == 0) *row = number + 1;
)cuda";

}  // namespace

void add_to_key(const ops::Publish& row, std::vector<std::int64_t>& key) {
  for (const std::size_t number :
       {row.scalars.size(), row.counters.size(), std::size_t{row.ends_row()}, std::size_t{row.ring.is_release}}) {
    key.push_back(static_cast<std::int64_t>(number));
  }
  for (const Tensor& scalar : row.scalars) key.push_back(static_cast<std::int64_t>(scalar.dtype()));
}

std::string tail_parameters(const ops::Publish& row) {
  std::string parameters =
      "giro::u64* words, giro::i64* row, giro::u32* arrivals, "
      "giro::i64 capacity, giro::i64 row_words, giro::i64 first, ";
  for (std::size_t c = 0; c < row.scalars.size(); ++c) {
    parameters += fmt::format("const {}* s{}, ", storage_type(row.scalars[c].dtype()), c);
  }
  for (std::size_t c = 0; c < row.counters.size(); ++c) {
    parameters += fmt::format("giro::i64* k{0}, giro::i64 by{0}, ", c);
  }
  return parameters;
}

std::string tail_source(const ops::Publish& row) {
  std::string counters, scalars;
  for (std::size_t c = 0; c < row.counters.size(); ++c) counters += fmt::format("    *k{0} += by{0};\n", c);
  for (std::size_t c = 0; c < row.scalars.size(); ++c) {
    scalars += fmt::format("    if (lane == {0}) number_of_lane = giro::as_double(giro::value(*s{0}));\n", c);
  }
  const std::string columns = row.ring.columns == 0
                                  ? "  if (lane == 0) to[0] = tag;\n"
                                  : fmt::format(fmt::runtime(kStoreColumns), fmt::arg("scalars", scalars),
                                                fmt::arg("count", row.scalars.size()));
  return fmt::format(fmt::runtime(kTail), fmt::arg("counters", counters), fmt::arg("columns", columns),
                     fmt::arg("release", row.ring.is_release && row.ends_row() ? kRelease : ""),
                     fmt::arg("end", row.ends_row() ? kEnd : ""));
}

std::vector<void*> tail_arguments(const ops::Publish& row, unsigned int* arrivals) {
  const auto number = [](auto value) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(value)); };
  std::vector<void*> arguments{
      row.ring.words,   row.row().raw(), arrivals, number(row.ring.capacity), number(row.ring.row_words()),
      number(row.first)};
  for (const Tensor& scalar : row.scalars) arguments.push_back(scalar.raw());
  for (const ops::Counter& counter : row.counters) {
    arguments.push_back(counter.count.raw());
    arguments.push_back(number(counter.by));
  }
  return arguments;
}

}  // namespace giro::cuda
