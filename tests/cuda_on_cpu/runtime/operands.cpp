#include "tests/cuda_on_cpu/runtime/operands.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/order.h"

namespace cuda_on_cpu {

void will_read(const void* begin, std::size_t bytes, const char* what) {
  check_range(begin, bytes, what);
  const std::string wrong = giro::simt::memory().read(begin, bytes, current_operation(), what);
  if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
}

void will_write(const void* begin, std::size_t bytes, const char* what) {
  check_range(begin, bytes, what);
  const std::string wrong = giro::simt::memory().write(begin, bytes, current_operation(), what);
  if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
}

void Operands::read(const void* begin, std::size_t bytes) {
  will_read(begin, bytes, what_);
  expect_apart(written_, begin, bytes);
  add(read_, begin, bytes);
}

void Operands::write(const void* begin, std::size_t bytes) {
  will_write(begin, bytes, what_);
  expect_apart(read_, begin, bytes);
  expect_apart(written_, begin, bytes);
  add(written_, begin, bytes);
}

void Operands::expect_apart(const Ranges& others, const void* begin, std::size_t bytes) const {
  if (bytes == 0) return;
  const auto* const first = static_cast<const char*>(begin);
  const auto after = others.lower_bound(first + bytes);
  if (after == others.begin() || std::prev(after)->second <= first) return;
  fail(cudaErrorIllegalAddress, fmt::format("{}: an output of {} bytes overlaps another operand", what_, bytes));
}

void Operands::add(Ranges& ranges, const void* begin, std::size_t bytes) {
  if (bytes == 0) return;
  const auto* first = static_cast<const char*>(begin);
  const char* last = first + bytes;
  auto next = ranges.upper_bound(first);
  if (next != ranges.begin() && std::prev(next)->second >= first) --next;
  while (next != ranges.end() && next->first <= last) {
    first = std::min(first, next->first);
    last = std::max(last, next->second);
    next = ranges.erase(next);
  }
  ranges[first] = last;
}

}  // namespace cuda_on_cpu
