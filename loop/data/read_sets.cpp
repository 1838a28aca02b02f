// Data sets that are read from files into memory.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <giro/loop/data/cifar.h>
#include <giro/loop/data/csv.h>
#include <giro/loop/data/dataset.h>

#include "loop/data/csv_table.h"
#include "loop/data/idx.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

constexpr int kClasses = 10;  // of MNIST and of CIFAR
// Of an image of CIFAR, and in bytes its record.
constexpr std::size_t kSide = 32, kPixels = kSide * kSide, kChannels = 3, kRecord = 1 + kPixels * kChannels;

IdxFile read(const MnistOptions& options, const std::string& name, std::uint32_t magic, const char* what) {
  IdxFile file = read_idx((std::filesystem::path(options.dir) / name).string(), *options.files);
  if (file.magic != magic) {
    throw_error(ErrorCode::corrupt_data, "{}: magic {:08x}, expected {:08x} ({})", file.path, file.magic, magic, what);
  }
  if (file.values.count() == 0) {
    throw_error(ErrorCode::corrupt_data, "{}: holds no {}: shape {}", file.path, what, to_string(file.values.shape()));
  }
  return file;
}

}  // namespace

Dataset mnist(const std::string& split, const MnistOptions& options) {
  if (split != "train" && split != "test") throw_invalid("unknown split '{}': expected train or test", split);
  const std::string prefix = split == "train" ? "train" : "t10k";
  struct Files {
    IdxFile images, labels;
  };
  const auto files = std::make_shared<Files>();
  files->images = read(options, prefix + "-images-idx3-ubyte", 0x00000803, "images");
  files->labels = read(options, prefix + "-labels-idx1-ubyte", 0x00000801, "labels");
  const Tensor images = files->images.values, labels = files->labels.values;

  if (images.shape()[0] != labels.shape()[0]) {
    throw_error(ErrorCode::corrupt_data, "{}: holds {} labels, expected one for each of the {} images of {}",
                files->labels.path, labels.shape()[0], images.shape()[0], files->images.path);
  }
  const std::uint8_t* label = labels.data<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.count(); ++i) {
    if (label[i] >= kClasses) {
      throw_error(ErrorCode::corrupt_data, "{}: label {} of sample {} is out of range, expected below {}",
                  files->labels.path, label[i], i, kClasses);
    }
  }
  const Tensor with_channel = images.reshape({images.shape()[0], images.shape()[1], images.shape()[2], 1});
  return Dataset({{"image", with_channel}, {"label", labels}}, files);
}

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
      if (record[0] >= kClasses) {
        throw_error(ErrorCode::corrupt_data, "{}: label {} of image {} is out of range, expected below {}", path,
                    record[0], i, kClasses);
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

Dataset csv(const Paths& paths, const CsvOptions& options) {
  if (paths.empty()) throw_invalid("csv: no path, expected at least one file");
  if (options.features.empty()) throw_invalid("csv: no features, expected names and their columns");
  for (const auto& [name, columns] : options.features) {
    if (columns.empty()) throw_invalid("csv: feature '{}' has no columns", name);
  }
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    throw_invalid("csv: the delimiter is {:?}, expected neither a quote nor a line end", delimiter);
  }
  std::vector<std::vector<float>> values = read_csv(paths, options.features, delimiter, *options.files);
  Dataset::Arrays arrays;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, columns] = options.features[i];
    const auto width = static_cast<std::int64_t>(columns.size());
    const auto rows = static_cast<std::int64_t>(values[i].size()) / width;
    arrays.emplace_back(name, HostArray(std::move(values[i]), {rows, width}));
  }
  return Dataset(arrays);
}

}  // namespace giro::data
