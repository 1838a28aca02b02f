#pragma once

#include <string>

namespace giro::detail {

// What a run is doing outside of its callbacks.
enum class Place { loop, dataset, next_batch, batch_size };

inline std::string to_string(Place place) {
  if (place == Place::loop) return "the loop";
  return place == Place::batch_size ? "batch_size_fn" : "the dataset";
}

}  // namespace giro::detail
