#pragma once

// What the checks remember of a piece of memory: which of its bytes have been written, and who touched each word
// last.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace giro::simt {

// An access of one lane, or of several lanes of a warp in one moment.
struct Access {
  std::uint32_t block = 0;  // serial number over all launches and operations
  std::uint32_t time = 0;   // the race check's clock
  std::uint32_t site = 0;   // sites.h
  std::uint32_t lanes = 0;
  std::uint8_t warp = 0;
  bool write = false;
  bool strong = false;       // atomic or volatile: no race with its like,
  bool block_scope = false;  // of its own block
};

class Shadow {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Cells come with the first access: which accesses of the word may still take part in a race
  // (RaceCheck::remember). Most memory is accessed in words; a page whose bytes are accessed one by one gets a
  // cell for each.
  struct Page {
    std::vector<Access> accesses;  // of the whole page, by operations of the runtime
    std::size_t granule = 4;
    std::vector<std::vector<Access>> cells;
  };

  Shadow(std::size_t bytes, bool initialised)
      : bytes_(bytes),
        pages_((bytes + kPageBytes - 1) / kPageBytes),
        initialised_((bytes + 63) / 64, initialised ? ~std::uint64_t{0} : 0) {}

  Page& page(std::size_t offset) { return pages_[offset / kPageBytes]; }

  // The cells of a range that lies in one page.
  std::span<std::vector<Access>> cells(std::size_t offset, std::size_t bytes);

  bool initialised(std::size_t offset, std::size_t bytes) const {
    if (offset % 64 + bytes <= 64) return (~initialised_[offset / 64] & bits(offset, bytes)) == 0;
    return first_uninitialised(offset, bytes) == bytes;
  }

  // How many bytes from `offset` on are initialised, at most `bytes`.
  std::size_t first_uninitialised(std::size_t offset, std::size_t bytes) const;

  void set_initialised(std::size_t offset, std::size_t bytes, bool value = true);

 private:
  static std::uint64_t bits(std::size_t offset, std::size_t bytes) {
    const std::uint64_t low = bytes >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bytes) - 1;
    return low << (offset % 64);
  }

  std::size_t bytes_;
  std::vector<Page> pages_;
  std::vector<std::uint64_t> initialised_;  // a bit a byte
};

}  // namespace giro::simt
