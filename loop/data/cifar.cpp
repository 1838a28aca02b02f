#include <giro/loop/data/cifar.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/throw_error.h"

namespace giro::data {
namespace {

constexpr std::size_t kSide = 32, kPixels = kSide * kSide, kChannels = 3, kRecord = 1 + kPixels * kChannels;
constexpr int kLabels = 10;

}  // namespace

Dataset cifar10(const std::string& split, const Cifar10Options& options) {
  std::vector<std::string> names;
  if (split == "train") {
    for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  } else if (split == "test") {
    names = {"test_batch.bin"};
  } else {
    throw_invalid("unknown split '{}': expected train or test", split);
  }
  std::vector<std::uint8_t> images, labels;
  for (const std::string& name : names) {
    const std::string path = (std::filesystem::path(options.dir) / name).string();
    const std::vector<char> content = options.files->read(path);
    const std::size_t count = content.size() / kRecord;
    if (count == 0 || content.size() % kRecord != 0) {
      throw_error(ErrorCode::corrupt_data, "{}: {} bytes, expected images of {} bytes each, including the label", path,
                  content.size(), kRecord);
    }
    const std::size_t before = images.size();
    images.resize(before + count * kPixels * kChannels);
    std::uint8_t* next = images.data() + before;
    for (std::size_t i = 0; i < count; ++i) {
      const auto* const record = reinterpret_cast<const std::uint8_t*>(content.data()) + i * kRecord;
      if (record[0] >= kLabels) {
        throw_error(ErrorCode::corrupt_data, "{}: label {} of image {} is out of range, expected below {}", path,
                    record[0], i, kLabels);
      }
      labels.push_back(record[0]);
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {  // the file stores one channel after the other
        for (std::size_t c = 0; c < kChannels; ++c) *next++ = record[1 + c * kPixels + pixel];
      }
    }
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return Dataset({{"image", HostArray(std::move(images), {count, kSide, kSide, kChannels})}, {"label", labels}});
}

}  // namespace giro::data
