#include <giro/loop/data/cifar.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro::data {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::expect_invalid;

class CifarTest : public ::testing::Test {
 protected:
  // Image `i` of a file: its label, then planes of red, green and blue that begin at these values and count up.
  static std::string record(int label, int red, int green, int blue) {
    std::string bytes(1, static_cast<char>(label));
    for (const int first : {red, green, blue}) {
      for (int pixel = 0; pixel < 1024; ++pixel) bytes += static_cast<char>(first + pixel);
    }
    return bytes;
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string path(const std::string& name) const { return (fs::path(dir_.path()) / name).string(); }
  Dataset load(const std::string& split) const { return cifar10(split, {.dir = dir_.path()}); }

  const test::TemporaryDirectory dir_;
};

TEST_F(CifarTest, ChannelsAreTheLastAxis) {
  write("test_batch.bin", record(3, 0, 100, 200) + record(9, 1, 2, 3));
  const Dataset test = load("test");
  const Batch::Features& rows = test.rows();
  EXPECT_EQ(rows[0].second.shape(), (Shape{2, 32, 32, 3}));
  const auto* const image = rows[0].second.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(image, image + 6), (std::vector{0, 100, 200, 1, 101, 201}));
  EXPECT_EQ(image[3 * 1023 + 1], (100 + 1023) % 256);
  EXPECT_EQ(image[3 * 1024], 1) << "of the second image";
  const auto* const label = rows[1].second.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(label, label + 2), (std::vector{3, 9}));
}

TEST_F(CifarTest, ReadsTrainingFilesInOrder) {
  for (int i = 1; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", record(i, 0, 0, 0));
  const Dataset train = load("train");
  const auto* const label = train.rows()[1].second.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(label, label + train.num_rows()), (std::vector{1, 2, 3, 4, 5}));
}

TEST_F(CifarTest, RejectsOtherFiles) {
  expect_invalid({"'valid'", "train or test"}, [&] { load("valid"); });
  expect_error(ErrorCode::not_found, {path("test_batch.bin")}, [&] { load("test"); });
  write("test_batch.bin", "");
  expect_error(ErrorCode::corrupt_data, {path("test_batch.bin"), "0 bytes", "3073"}, [&] { load("test"); });
  write("test_batch.bin", record(0, 0, 0, 0) + "x");
  expect_error(ErrorCode::corrupt_data, {path("test_batch.bin"), "3074 bytes"}, [&] { load("test"); });
  write("test_batch.bin", record(0, 0, 0, 0) + record(10, 0, 0, 0));
  expect_error(ErrorCode::corrupt_data, {path("test_batch.bin"), "label 10 of image 1"}, [&] { load("test"); });
}

}  // namespace
}  // namespace giro::data
