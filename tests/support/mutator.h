#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace giro::test {

// Damages files, in the same way each time for the same seed. It flips bits, replaces bytes, cuts files, inserts slices
// of the same or another file, and replaces binary and decimal sizes by values at which arithmetic overflows.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string operator()(std::string bytes, const std::vector<std::string>& others) {
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) change(bytes, others[below(others.size())]);
    return bytes;
  }

 private:
  void change(std::string& bytes, const std::string& other) {
    static constexpr std::string_view kBytes("\0\xff\x7f\x80\x1f{}[]\":,\\019.-e ", 21);
    const std::size_t at = below(bytes.size());
    switch (below(8)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = kBytes[below(kBytes.size())];
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, below(20));
        break;
      case 4:
        bytes.insert(at, slice(bytes));
        break;
      case 5:
        bytes.replace(at, below(2) * below(20), slice(other));
        break;
      case 6:
        replace_integer(bytes, below(3) == 0 ? at : below(std::min<std::size_t>(bytes.size(), 24)));
        break;
      default:
        replace_decimal(bytes, at);
    }
  }

  std::string slice(const std::string& bytes) {
    const std::size_t at = below(bytes.size());
    return bytes.substr(at, below(40));
  }

  std::uint64_t integer(std::size_t near) {
    using Limits = std::numeric_limits<std::int64_t>;
    const std::uint64_t edges[] = {0,          near,        1ull << 16,
                                   1ull << 31, 1ull << 32,  1ull << 62,
                                   1ull << 63, 100'000'000, static_cast<std::uint64_t>(Limits::max())};
    return edges[below(std::size(edges))] + below(17) - 8;  // wraps around near 0
  }

  void replace_integer(std::string& bytes, std::size_t at) {
    std::uint64_t value = integer(bytes.size());
    const std::size_t width = std::size_t{1} << below(4);
    const bool big_endian = below(2) == 0;
    for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
      const std::size_t place = big_endian ? width - 1 - i : i;
      bytes[at + i] = static_cast<char>(value >> (8 * place));
    }
  }

  void replace_decimal(std::string& bytes, std::size_t at) {
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto begin = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(), is_digit);
    const auto end = std::find_if_not(begin, bytes.end(), is_digit);
    if (begin != end) bytes.replace(begin, end, std::to_string(integer(bytes.size())));
  }

  std::mt19937_64 random_;
};

}  // namespace giro::test
