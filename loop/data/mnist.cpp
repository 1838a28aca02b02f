#include <filesystem>
#include <memory>

#include <giro/loop/data/dataset.h>

#include "loop/data/idx.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

constexpr int kClasses = 10;

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

}  // namespace giro::data
