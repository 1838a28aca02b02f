#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace giro::detail {

inline void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// A protobuf message in its wire format: fields in the order they were added.
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

// Reads the fields of a message one after the other. Stops at anything that cannot be a field.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  // The number of the next field; 0 after the last.
  int next() {
    std::uint64_t key = 0;
    if (!take_varint(key)) return 0;
    switch (key & 7) {
      case 0:
        if (!take_varint(integer_)) return 0;
        break;
      case 1:
        if (!skip(8)) return 0;
        break;
      case 2: {
        std::uint64_t size = 0;
        if (!take_varint(size) || !skip(size)) return 0;
        break;
      }
      case 5:
        if (!skip(4)) return 0;
        break;
      default:
        return 0;
    }
    return static_cast<int>(key >> 3);
  }
  // The value of the current field, if it is an integer.
  std::int64_t integer() const noexcept { return static_cast<std::int64_t>(integer_); }

 private:
  bool take_varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool skip(std::uint64_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }

  std::string_view rest_;
  std::uint64_t integer_ = 0;
};

}  // namespace giro::detail
