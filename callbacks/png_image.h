#pragma once

#include <cstdint>
#include <string>

namespace giro::detail {

// A PNG file with 8 bits per channel. `pixels` has height * width * channels bytes, row by row; channels is 1 (grey), 3
// (RGB) or 4 (RGBA); no size is 0. Error(unsupported) for an image that libpng cannot write, for example a very wide
// one.
std::string encode_png(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels);

}  // namespace giro::detail
