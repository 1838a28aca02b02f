#pragma once

#include <concepts>
#include <cstdint>

namespace giro {

// The number of samples in a batch: samples() if it has that, else size() if it has that, else 1.
template <class B>
std::int64_t batch_size(const B& batch) {
  if constexpr (requires {
                  { batch.samples() } -> std::convertible_to<std::int64_t>;
                }) {
    return static_cast<std::int64_t>(batch.samples());
  } else if constexpr (requires {
                         { batch.size() } -> std::convertible_to<std::int64_t>;
                       }) {
    return static_cast<std::int64_t>(batch.size());
  } else {
    return 1;
  }
}

}  // namespace giro
