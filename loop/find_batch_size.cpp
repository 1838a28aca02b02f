#include <giro/loop/find_batch_size.h>

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <string>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

std::size_t budget_on(Device device, const FindBatchSizeOptions& options) {
  if (options.budget > 0) return options.budget;
  const std::optional<std::size_t> free = device.is_cuda() ? cuda::free_memory(device) : cpu::free_memory();
  if (free) return *free / 10 * 9;
  throw_error(ErrorCode::unsupported, "find_batch_size: the free memory of {} is unknown, expected a budget",
              to_string(device));
}

}  // namespace

std::int64_t find_batch_size(const std::function<std::size_t(std::int64_t)>& bytes_of, Device device,
                             const Partitioner* ranks, const FindBatchSizeOptions& options) {
  // Sizes are `each` times a number in [first, last].
  const std::int64_t each = ranks != nullptr ? ranks->size() : 1;
  std::int64_t first = options.min / each + (options.min % each > 0 ? 1 : 0), last = options.max / each;
  if (options.power_of_two && first >= 1 && last >= first) {
    const auto bits = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
    last = static_cast<std::int64_t>(std::bit_floor(bits(last)));
    if (first <= last) first = static_cast<std::int64_t>(std::bit_ceil(bits(first)));
  }
  if (options.min < 1 || last < first) {
    throw_invalid("find_batch_size: min is {}, max is {}, expected min >= 1 and a {} between them{}", options.min,
                  options.max, options.power_of_two ? "power of two" : "number",
                  each == 1 ? std::string() : fmt::format(", times {} ranks", each));
  }

  const std::size_t budget = budget_on(device, options);
  std::string why;  // why the latest failing size does not fit
  const auto fits = [&](std::int64_t number) {
    double fails = 0;
    try {
      const std::size_t bytes = bytes_of(number * each);
      fails = bytes > budget ? 1 : 0;
      if (fails != 0) why = fmt::format("it needs {} bytes, but {} are available", bytes, budget);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
      why = error.what();
      fails = 1;
    }
    if (ranks != nullptr) ranks->all_reduce_max({&fails, 1});
    return fails == 0;
  };
  if (!fits(first)) {
    throw_error(ErrorCode::out_of_memory, "find_batch_size: a batch of {} does not fit on {}: {}", first * each,
                to_string(device), why.empty() ? "another rank has too little memory" : why);
  }
  std::int64_t good = first, bad = last + 1;
  while (good < last && bad > last) {
    const std::int64_t next = good > last / 2 ? last : 2 * good;
    (fits(next) ? good : bad) = next;
  }
  while (!options.power_of_two && bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good * each;
}

}  // namespace giro::detail
