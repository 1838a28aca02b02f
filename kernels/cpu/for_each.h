#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

#include "kernels/cpu/subnormals.h"
#include "kernels/cpu/team.h"
#include "runtime/cpu/stream.h"
#include "runtime/temporary.h"

namespace giro::cpu {

constexpr std::int64_t kBlock = 4096;          // elements a thread takes at a time
constexpr std::int64_t kParallelFrom = 32768;  // below this, waking threads costs more than the work

// Calls f(begin, end) for consecutive blocks of [0, n), of `block` units each. The blocks do not depend on the number
// of threads, so neither do results that are combined block by block. `work` is the cost of all n units, in elements.
template <class F>
void for_each_block(std::int64_t n, std::int64_t block, std::int64_t work, const F& f) {
  const std::int64_t blocks = (n + block - 1) / block;
  const auto run = [&](std::int64_t b) {
    const FlushSubnormals flush;  // in each thread
    f(b * block, std::min(n, (b + 1) * block));
  };
  if (work < kParallelFrom) {
    for (std::int64_t b = 0; b < blocks; ++b) run(b);
  } else {
    const ThreadLimit limit(team_threads());
#pragma omp parallel for schedule(static)
    for (std::int64_t b = 0; b < blocks; ++b) run(b);
  }
}

// for_each_block, where f may throw: an exception must not leave an OpenMP thread.
template <class F>
void for_each_part(std::int64_t n, std::int64_t block, std::int64_t work, const F& f) {
  std::exception_ptr error;
  std::mutex mutex;
  for_each_block(n, block, work, [&](std::int64_t begin, std::int64_t end) {
    try {
      f(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
    }
  });
  if (error != nullptr) std::rethrow_exception(error);
}

// Queues f(i) for every i in [0, n).
template <class F>
void for_each(const Stream& stream, std::int64_t n, F f) {
  submit(stream, [=] {
    for_each_block(n, kBlock, n, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) f(i);
    });
  });
}

}  // namespace giro::cpu
