#include "runtime/throw_error.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace giro {
namespace {

TEST(ThrowErrorTest, FormatsTheMessageAndNamesTheCallersLine) {
  const std::string name = "w";
  constexpr unsigned int kLine = __LINE__ + 2;
  try {
    throw_error(ErrorCode::shape_mismatch, "{} has {} axes, expected {:?}", name, 3, "two");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::shape_mismatch);
    EXPECT_STREQ(error.what(), "w has 3 axes, expected \"two\"");
    EXPECT_EQ(error.where().line(), kLine);
    EXPECT_TRUE(std::string_view(error.where().file_name()).ends_with("throw_error_test.cpp"));
  }
}

}  // namespace
}  // namespace giro
