#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>

#include <giro/runtime/error.h>

#include "tests/support/address_space_limit.h"
#include "tests/support/one_file.h"
#include "tests/support/sanitized.h"

namespace giro::test {

// Reads 100,000 files from `make`, most of them damaged; see cases(). Each file must be read without an error, or fail
// with a one-line error that calls it corrupt or unsupported. Each may take less than a second and 64 MiB of memory.
// `read(file)` throws the reader's errors.
template <class Make, class Read>
void expect_damage_is_found(Make&& make, Read&& read) {
  constexpr int kFiles = cases(100'000);
  int sound = 0;
  std::map<ErrorCode, int> errors;
  std::clock_t longest = 0;
  {
    const AddressSpaceLimit limit(std::size_t{64} << 20);
    for (int i = 0; i < kFiles && !testing::Test::HasFailure(); ++i) {
      OneFile file(make());
      const std::clock_t start = std::clock();
      try {
        read(file);
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
  // The test proves nothing if no file is damaged, or every file beyond recognition.
  EXPECT_GT(sound, kFiles / 50);
  EXPECT_GT(errors[ErrorCode::corrupt_data], kFiles / 2);
  EXPECT_GT(errors[ErrorCode::unsupported], kFiles / 200);
  testing::Test::RecordProperty("sound", sound);
  testing::Test::RecordProperty("longest_us", static_cast<int>(longest * 1'000'000 / CLOCKS_PER_SEC));
}

}  // namespace giro::test
