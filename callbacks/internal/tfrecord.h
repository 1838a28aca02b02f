#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace giro::detail {

// The CRC32C of `data` as a TFRecord has it: rotated and shifted, so that the checksum of data that holds checksums
// is a good one.
std::uint32_t masked_crc32c(std::string_view data);

// Appends a TFRecord: length, its checksum, the data, their checksum.
void append_tfrecord(std::string& out, std::string_view data);

// Takes the first record off `file`. Its data; none where there is no whole one, with the right checksums, at its
// beginning.
std::optional<std::string_view> take_tfrecord(std::string_view& file);

}  // namespace giro::detail
