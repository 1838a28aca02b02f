#include "callbacks/png_image.h"

#include <png.h>

#include <limits>

#include "runtime/throw_error.h"

namespace giro::detail {

std::string encode_png(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();  // bytes of pixels
  const auto fail = [&](const char* why) {
    throw_error(ErrorCode::unsupported, "png: an image of {} x {} pixels and {} channels: {}", height, width, channels,
                why);
  };
  if (width > kMax / channels / height) fail("expected less than 2 GiB of pixels");
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels, 0, nullptr) == 0) fail(image.message);
  file.resize(bytes);
  return file;
}

}  // namespace giro::detail
