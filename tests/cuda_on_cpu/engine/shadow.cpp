#include "tests/cuda_on_cpu/engine/shadow.h"

#include <algorithm>
#include <utility>

namespace giro::simt {

std::span<Accesses> Shadow::cells(std::size_t offset, std::size_t bytes) {
  Page& at = page(offset);
  if (at.cells.empty()) {
    const std::size_t begin = offset - offset % kPageBytes, size = std::min(kPageBytes, bytes_ - begin);
    at.cells.resize((size + at.granule - 1) / at.granule);
  }
  if (at.granule != 1 && (offset | bytes) % at.granule != 0) {
    std::vector<Accesses> finer;
    finer.reserve(at.cells.size() * at.granule);
    for (const Accesses& cell : at.cells) {
      for (std::size_t byte = 0; byte < at.granule; ++byte) finer.push_back(cell);
    }
    at.cells = std::move(finer);
    at.granule = 1;
  }
  return {&at.cells[offset % kPageBytes / at.granule], bytes / at.granule};
}

std::size_t Shadow::first_uninitialised(std::size_t offset, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t here = offset + done, part = std::min(bytes - done, 64 - here % 64);
    if ((~initialised_[here / 64] & bits(here, part)) != 0) {
      while (initialised_[(offset + done) / 64] >> ((offset + done) % 64) & 1) ++done;
      return done;
    }
    done += part;
  }
  return bytes;
}

void Shadow::set_initialised(std::size_t offset, std::size_t bytes, bool value) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t here = offset + done, part = std::min(bytes - done, 64 - here % 64);
    std::uint64_t& word = initialised_[here / 64];
    word = value ? word | bits(here, part) : word & ~bits(here, part);
    done += part;
  }
}

}  // namespace giro::simt
