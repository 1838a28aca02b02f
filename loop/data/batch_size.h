#pragma once

#include <concepts>
#include <cstdint>

namespace giro {

// The samples in a batch: its samples() or size(), where it has one of them, else 1.
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
