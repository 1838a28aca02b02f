#include <giro/kernels/device_speed.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include <giro/runtime/buffer.h>

#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr int kRounds = 5;
constexpr double kLongEnough = 8e-3;  // seconds per round

// The fastest round's time in seconds. `round` queues work.
template <class Round>
double fastest(const Stream& stream, Round&& round) {
  double seconds = stream.impl().time(round);
  for (int i = 1; i < kRounds; ++i) seconds = std::min(seconds, stream.impl().time(round));
  return seconds;
}

// Tries growing sizes until a round takes long enough or the largest size is reached.
double bytes_per_second(const Stream& stream) {
  constexpr std::size_t kMax = std::size_t{256} << 20;
  for (std::size_t bytes = std::size_t{1} << 20;; bytes *= 4) {
    const Buffer from = Buffer::allocate(stream.device(), bytes), to = Buffer::allocate(stream.device(), bytes);
    stream.fill(from.data(), 0, bytes);
    stream.copy(to.data(), from.data(), bytes);
    const double seconds = fastest(stream, [&] { stream.copy(to.data(), from.data(), bytes); });
    if (seconds >= kLongEnough || bytes >= kMax) return 2 * static_cast<double>(bytes) / seconds;
  }
}

double flops_per_second(const Stream& stream, DType dtype, MathMode math) {
  constexpr std::int64_t kMax = 8192;
  double most = 0;
  for (std::int64_t n = 256;; n *= 2) {
    const std::size_t bytes = static_cast<std::size_t>(n * n) * size_of(dtype);
    const Buffer memory = Buffer::allocate(stream.device(), 3 * bytes);
    const auto matrix = [&](std::size_t i) {
      return Tensor(static_cast<std::byte*>(memory.data()) + i * bytes, dtype, {n, n}, stream.device());
    };
    const Tensor a = matrix(0), b = matrix(1), product = matrix(2);
    for (const Tensor& factor : {a, b}) ops::fill(factor, 0.5, stream);
    const auto multiply = [&] { queue(ops::Dense{product, a, b, {}, math}, stream); };
    multiply();
    const double seconds = fastest(stream, multiply), size = static_cast<double>(n);
    most = std::max(most, 2 * size * size * size / seconds);
    if (seconds >= kLongEnough || n >= kMax) return most;
  }
}

// Measures on the first call for each device and kind, and remembers the result.
template <class Measure>
double once(const Stream& stream, const std::string& kind, Measure&& measure) {
  static std::mutex mutex;
  static std::map<std::string, double> known;
  if (stream.is_recording()) {
    throw_invalid("device_speed: cannot measure in a recording, which runs nothing");
  }
  const std::lock_guard lock(mutex);
  const std::string key = to_string(stream.device()) + kind;
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, measure()).first->second;
}

}  // namespace

DeviceSpeed device_speed(const Stream& stream) {
  return {once(stream, "", [&] { return bytes_per_second(stream); }), product_speed(stream)};
}

double product_speed(const Stream& stream, DType dtype, MathMode math) {
  return once(stream, std::string(name_of(dtype)) + (math == MathMode::tf32 ? " as tf32" : ""),
              [&] { return flops_per_second(stream, dtype, math); });
}

}  // namespace giro
