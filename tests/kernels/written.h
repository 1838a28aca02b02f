#pragma once

// Tensors as JSON, for tests that compare them with results from Python.

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/kernels/op_test.h"

namespace giro::test {

// NaN and infinities as Python's json reads them.
inline std::string written(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.17g}", value);
}

inline std::string written(const Array& array) {
  std::vector<std::string> texts;
  for (const double value : array.values) texts.push_back(written(value));
  return fmt::format(R"({{"dtype": "{}", "shape": [{}], "values": [{}]}})", name_of(array.dtype),
                     fmt::join(array.shape, ", "), fmt::join(texts, ", "));
}

inline std::string written(const Tensor& tensor, const Stream& stream) {
  Bytes bytes(tensor.bytes());
  stream.copy(bytes.data(), tensor.raw(), bytes.size());
  stream.synchronize();
  return written(Array{tensor.dtype(), tensor.shape(), decode(tensor.dtype(), bytes)});
}

// A member of a JSON object.
inline std::string member(const std::string& name, const std::string& value) {
  return fmt::format(R"("{}": {})", name, value);
}

// The memory of tensors on a device.
class Storage {
 public:
  explicit Storage(const Stream& stream) : stream_(stream) {}

  Tensor zeros(DType dtype, const Shape& shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    buffers_.push_back(stream_.allocate(bytes));
    stream_.fill(buffers_.back().data(), 0, bytes);
    return Tensor(buffers_.back().data(), dtype, shape, stream_.device());
  }
  Tensor upload(const Array& array) {
    const Tensor tensor = zeros(array.dtype, array.shape);
    const Bytes bytes = encode(array);
    stream_.copy(tensor.raw(), bytes.data(), bytes.size());
    stream_.synchronize();
    return tensor;
  }

 private:
  Stream stream_;
  std::vector<Buffer> buffers_;
};

}  // namespace giro::test
