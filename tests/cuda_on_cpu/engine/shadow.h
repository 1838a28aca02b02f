#pragma once

// What the checks remember about a piece of memory: which bytes have been written, and the last accesses to each word.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  bool strong = false;       // atomic or volatile: does not race with other strong accesses,
  bool block_scope = false;  // or only with those of its own block
  std::uint8_t bytes = 0;
};

// The accesses to a word or a page. Mostly there are at most two, which are stored in place.
class Accesses {
 public:
  Accesses() = default;
  Accesses(const Accesses& other)
      : few_(other.few_),
        few_count_(other.few_count_),
        many_(other.many_ ? std::make_unique<std::vector<Access>>(*other.many_) : nullptr) {}
  Accesses(Accesses&&) noexcept = default;
  Accesses& operator=(Accesses&&) noexcept = default;

  Access* begin() { return many_ ? many_->data() : few_.data(); }
  Access* end() { return begin() + size(); }
  std::size_t size() const { return many_ ? many_->size() : few_count_; }

  void push_back(const Access& access) {
    if (!many_ && few_count_ < few_.size()) {
      few_[few_count_++] = access;
      return;
    }
    if (!many_) many_ = std::make_unique<std::vector<Access>>(few_.begin(), few_.end());
    many_->push_back(access);
  }
  void keep_first(std::size_t count) {
    if (many_) {
      many_->resize(count);
    } else {
      few_count_ = count;
    }
  }

 private:
  std::array<Access, 2> few_;
  std::size_t few_count_ = 0;
  std::unique_ptr<std::vector<Access>> many_;
};

class Shadow {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Cells are made at the first access. A cell holds the accesses to its word that may still take part in a race
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
  std::vector<std::uint64_t> initialised_;  // one bit per byte
};

}  // namespace giro::simt
