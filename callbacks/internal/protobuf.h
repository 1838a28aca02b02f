#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace giro::detail {

inline void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// A protobuf message in its wire format: the fields that were added, in that order.
class ProtoMessage {
 public:
  const std::string& bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_.empty(); }
  void clear() noexcept { bytes_.clear(); }

  ProtoMessage& add_integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& add_double(int field, double value) {
    key(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoMessage& add_float(int field, float value) {
    key(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  // Bytes, or a text, which must be UTF-8.
  ProtoMessage& add_bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& add_message(int field, const ProtoMessage& value) { return add_bytes(field, value.bytes_); }

 private:
  void key(int field, int wire_type) { varint(static_cast<std::uint64_t>(field) << 3 | wire_type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace giro::detail
