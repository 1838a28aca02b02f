#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace giro::detail {

// The CRC32C of `data`, masked as in TFRecords: rotated, plus a constant. So it may be part of data that is itself
// checksummed.
std::uint32_t masked_crc32c(std::string_view data);

// Appends a TFRecord: length, its checksum, the data, their checksum.
void append_tfrecord(std::string& out, std::string_view data);

// Removes the first record from `file` and returns its data; nullopt if `file` does not begin with a complete record
// with the right checksums.
std::optional<std::string_view> take_tfrecord(std::string_view& file);

}  // namespace giro::detail
