#pragma once

// What the checks remember of a piece of memory: which of its bytes have been written, and who touched each word
// last.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace giro::simt {

// One access, as small as can be: there are three for every word touched.
struct Access {
  std::uint32_t block = 0;  // serial number over all launches and operations; 0: no access yet
  std::uint32_t time = 0;   // the race check's clock
  std::uint32_t site = 0;   // sites.h
  std::uint16_t thread = 0;
  bool strong = false;  // atomic or volatile: no race with its like
};

// The last write, and the last reads by two different threads. One reader would not do: the thread that
// then writes has often just read the word itself.
struct Cell {
  Access write, read, other_read;
};

class Shadow {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Cells come with the first access. Most memory is accessed in words; a page whose bytes are accessed one by
  // one gets a cell for each.
  struct Page {
    Access write, read;  // of the whole page, by an operation of the runtime
    std::size_t granule = 4;
    std::vector<Cell> cells;
  };

  struct Cells {
    Cell* first;
    std::size_t count;
  };

  Shadow(std::size_t bytes, bool initialised)
      : bytes_(bytes),
        pages_((bytes + kPageBytes - 1) / kPageBytes),
        initialised_((bytes + 63) / 64, initialised ? ~std::uint64_t{0} : 0) {}

  Page& page(std::size_t offset) { return pages_[offset / kPageBytes]; }

  // The cells of a range that lies in one page.
  Cells cells(std::size_t offset, std::size_t bytes);

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
