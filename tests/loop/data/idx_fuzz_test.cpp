#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "loop/data/idx.h"
#include "tests/loop/data/idx_files.h"
#include "tests/support/address_space_limit.h"
#include "tests/support/damaged_files.h"
#include "tests/support/mutator.h"
#include "tests/support/one_file.h"

namespace giro::data {
namespace {

using test::gzip;
using test::idx;

std::vector<std::string> valid_files() {
  std::string text(300, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return {idx(0x08, {3}, "abc"), idx(0x0C, {2, 2}, text.substr(0, 16)), idx(0x0E, {2, 1, 2}, text.substr(0, 32)),
          idx(0x08, {3, 10, 10}, text), idx(0x0D, {0, 4}, "")};
}

TEST(IdxFuzzTest, DamagedFilesAreRejectedOrReadSafely) {
  const std::vector<std::string> plain = valid_files();
  std::vector<std::string> packed;
  for (const std::string& file : plain) packed.push_back(gzip(file));
  packed.push_back(gzip(plain[1].substr(0, 9)) + gzip("") + gzip(plain[1].substr(9)));

  test::Mutator mutated(1);
  test::expect_damage_is_found(
      [&] {
        // Damaged and then packed, packed and then damaged, or not packed.
        const std::size_t way = mutated.below(4);
        return way == 0   ? gzip(mutated(plain[mutated.below(plain.size())], plain))
               : way == 1 ? mutated(packed[mutated.below(packed.size())], packed)
                          : mutated(plain[mutated.below(plain.size())], plain);
      },
      [](test::OneFile& file) {
        const IdxFile read = read_idx("file", file);
        const char* const bytes = static_cast<const char*>(read.values.raw());
        std::string copy;
        if (read.values.bytes() > 0) copy.assign(bytes, bytes + read.values.bytes());  // all of it can be read
      });
}

TEST(IdxFuzzTest, UncompressedFileTakesItsSizeOnce) {
  constexpr std::uint32_t kSize = 80 << 20;
  test::OneFile file(idx(0x08, {kSize}, std::string(kSize, 'x')));
  const test::AddressSpaceLimit limit(file.content.size() + (std::size_t{64} << 20));
  EXPECT_EQ(read_idx("file", file).values.count(), kSize);
}

}  // namespace
}  // namespace giro::data
