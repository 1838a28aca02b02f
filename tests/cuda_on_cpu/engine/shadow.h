#pragma once

// What the checks record about a piece of memory: which bytes have been written, and the last accesses to each word.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace giro::simt {

// An access of one lane, or of several lanes of a warp at the same moment.
struct Access {
  std::uint32_t block = 0;  // serial number over all launches and operations
  std::uint32_t time = 0;   // the race check's clock
  std::uint32_t site = 0;   // sites.h
  std::uint32_t lanes = 0;
  std::uint8_t warp = 0;
  bool write = false;
  bool strong = false;       // atomic or volatile: does not race with other strong accesses;
  bool block_scope = false;  // if so, only with those of its own block
  std::uint8_t bytes = 0;
};

// The accesses to a word or a page. Usually there are at most two, which are stored in place. Fills one cache line,
// since a check spends most of its time fetching it.
class alignas(64) Accesses {
 public:
  Accesses() = default;
  Accesses(const Accesses& other) {
    for (std::uint32_t i = 0; i < other.size_; ++i) push_back(other.begin()[i]);
  }
  Accesses(Accesses&& other) noexcept { *this = std::move(other); }
  Accesses& operator=(Accesses&& other) noexcept {
    few_ = other.few_;
    many_ = std::move(other.many_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kFew);
    return *this;
  }

  const Access* begin() const { return many_ ? many_.get() : few_.data(); }
  Access* begin() { return many_ ? many_.get() : few_.data(); }
  Access* end() { return begin() + size_; }

  void push_back(const Access& access) {
    if (size_ == capacity_) {
      auto more = std::make_unique<Access[]>(2 * capacity_);
      std::copy(begin(), end(), more.get());
      many_ = std::move(more);
      capacity_ *= 2;
    }
    begin()[size_++] = access;
  }
  void keep_first(std::size_t count) { size_ = static_cast<std::uint32_t>(count); }

 private:
  static constexpr std::uint32_t kFew = 2;

  std::array<Access, kFew> few_;
  std::unique_ptr<Access[]> many_;
  std::uint32_t size_ = 0, capacity_ = kFew;
};

class Shadow {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Cells are created at the first access. A cell holds the accesses to its word that may still take part in a race
  // (RaceCheck::remember). Most memory is accessed in words. A page that is accessed byte by byte gets a cell per byte.
  struct Page {
    Accesses accesses;  // of the whole page, by operations of the runtime
    std::size_t granule = 4;
    std::vector<Accesses> cells;
  };

  Shadow(std::size_t bytes, bool initialised)
      : bytes_(bytes),
        pages_((bytes + kPageBytes - 1) / kPageBytes),
        initialised_((bytes + 63) / 64, initialised ? ~std::uint64_t{0} : 0) {}

  Page& page(std::size_t offset) { return pages_[offset / kPageBytes]; }

  // The cells of a range that lies in one page.
  std::span<Accesses> cells(std::size_t offset, std::size_t bytes);

  bool initialised(std::size_t offset, std::size_t bytes) const {
    if (offset % 64 + bytes <= 64) return (~initialised_[offset / 64] & bits(offset, bytes)) == 0;
    return first_uninitialised(offset, bytes) == bytes;
  }

  // The number of initialised bytes from `offset` on, at most `bytes`.
  std::size_t first_uninitialised(std::size_t offset, std::size_t bytes) const;

  void set_initialised(std::size_t offset, std::size_t bytes, bool value = true);

 private:
  static std::uint64_t bits(std::size_t offset, std::size_t bytes) {
    const std::uint64_t low = bytes >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bytes) - 1;
    return low << (offset % 64);
  }

  std::size_t bytes_;
  std::vector<Page> pages_;
  std::vector<std::uint64_t> initialised_;  // one bit per byte
};

}  // namespace giro::simt
