#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "loop/data/internal/idx.h"
#include "tests/address_space_limit.h"
#include "tests/loop/data/idx_files.h"
#include "tests/mutator.h"
#include "tests/one_file.h"

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

TEST(IdxFuzzTest, DamagedFilesAreErrorsOrSound) {
  constexpr int kFiles = 100'000;
  const std::vector<std::string> plain = valid_files();
  std::vector<std::string> packed;
  for (const std::string& file : plain) packed.push_back(gzip(file));
  packed.push_back(gzip(plain[1].substr(0, 9)) + gzip("") + gzip(plain[1].substr(9)));

  test::Mutator mutated(1);
  int sound = 0;
  std::map<ErrorCode, int> errors;
  std::clock_t longest = 0;
  {
    const test::AddressSpaceLimit limit(std::size_t{64} << 20);
    for (int i = 0; i < kFiles && !testing::Test::HasFailure(); ++i) {
      // Plain, damaged and then packed, and damaged when it was packed.
      const std::size_t way = mutated.below(4);
      test::OneFile file(way == 0   ? gzip(mutated(plain[mutated.below(plain.size())], plain))
                         : way == 1 ? mutated(packed[mutated.below(packed.size())], packed)
                                    : mutated(plain[mutated.below(plain.size())], plain));
      const std::clock_t start = std::clock();
      try {
        const IdxFile read = read_idx("file", file);
        const char* const bytes = static_cast<const char*>(read.values.raw());
        std::string copy;
        if (read.values.bytes() > 0) copy.assign(bytes, bytes + read.values.bytes());  // all of it can be read
        ++sound;
      } catch (const Error& error) {
        ++errors[error.code()];
        EXPECT_LT(std::strlen(error.what()), 400u);
        EXPECT_TRUE(error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::unsupported) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      longest = std::max(longest, std::clock() - start);
      if (testing::Test::HasFailure()) ADD_FAILURE() << "file " << i << ": " << testing::PrintToString(file.content);
    }
  }
  EXPECT_LT(longest, CLOCKS_PER_SEC);
  // It is no test if nothing is damaged, or everything beyond recognition.
  EXPECT_GT(sound, kFiles / 50);
  EXPECT_GT(errors[ErrorCode::corrupt_data], kFiles / 2);
  EXPECT_GT(errors[ErrorCode::unsupported], kFiles / 200);
  RecordProperty("sound", sound);
  RecordProperty("longest_us", static_cast<int>(longest * 1'000'000 / CLOCKS_PER_SEC));
}

TEST(IdxFuzzTest, AFileThatIsNotPackedTakesItsSizeOnce) {
  constexpr std::uint32_t kSize = 80 << 20;
  test::OneFile file(idx(0x08, {kSize}, std::string(kSize, 'x')));
  const test::AddressSpaceLimit limit(file.content.size() + (std::size_t{64} << 20));
  EXPECT_EQ(read_idx("file", file).values.count(), kSize);
}

}  // namespace
}  // namespace giro::data
