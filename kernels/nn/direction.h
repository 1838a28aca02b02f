#pragma once

#include <cstdint>

namespace giro::nn {

// Which way a loss or a metric is better.
enum class Direction : std::uint8_t { unknown, lower, higher };

}  // namespace giro::nn
