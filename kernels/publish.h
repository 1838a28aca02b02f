#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace giro {

// Where a step's scalars go: a ring of rows in memory that host and device share. Row r, counted from 0, is in slot
// r % capacity. A column is a double in two words: each holds half of the double's bits in its low half and the row's
// number modulo 2^32 in its high half. So a row has arrived when all of its words have that number, in whatever order
// they were stored, without a fence, which over PCIe takes as long as a small kernel. This requires that words are
// never torn: "naturally aligned" accesses of 8 bytes to mapped memory are "preserved as single accesses" for the host
// (CUDA C++ Programming Guide, Mapped Memory).
//
// Once a row has arrived, the earlier work on its stream has finished, and that work's inputs may be overwritten. Its
// writes to host memory may still be in flight, unless `is_release`.
struct ScalarRing {
  std::uint64_t* words = nullptr;  // pinned, capacity * row_words()
  std::int64_t capacity = 0;       // a power of two
  std::int64_t columns = 0;
  bool is_release = false;

  // A row without columns has one word.
  std::int64_t row_words() const noexcept { return columns > 0 ? 2 * columns : 1; }
  // Prepares the words: the rows before `first` count as arrived.
  void begin(std::int64_t first) const noexcept;
  // Whether this row, or a later one in its slot, has arrived.
  bool has(std::int64_t row) const noexcept {
    std::uint64_t* const of_row = slot(row);
    for (std::int64_t i = 0; i < row_words(); ++i) {
      const auto number = static_cast<std::uint32_t>(load(of_row[i]) >> 32);
      if (static_cast<std::int32_t>(number - static_cast<std::uint32_t>(row)) < 0) return false;
    }
    return true;
  }
  std::uint64_t* slot(std::int64_t row) const noexcept { return words + (row & (capacity - 1)) * row_words(); }
  // A column of a slot whose row has arrived.
  static double value(std::uint64_t* slot, std::int64_t column) noexcept {
    return std::bit_cast<double>(load(slot[2 * column + 1]) << 32 | (load(slot[2 * column]) & 0xffffffffu));
  }

 private:
  static std::uint64_t load(std::uint64_t& word) noexcept {
    return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
  }
};

}  // namespace giro
