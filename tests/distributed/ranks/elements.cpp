#include <cstring>

#include <giro/runtime/float16.h>

#include "tests/distributed/ranks/ranks.h"

namespace giro::test {
namespace {

template <class T>
void store(char* to, double value) {
  T element;
  if constexpr (sizeof(T) == 2) {
    element = T(static_cast<float>(value));
  } else {
    element = static_cast<T>(value);
  }
  std::memcpy(to, &element, sizeof element);
}

template <class T>
double load(const char* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  if constexpr (sizeof(T) == 2) return static_cast<double>(static_cast<float>(element));
  return static_cast<double>(element);
}

// Returns f(T()) for the type that stores the dtype.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
    case DType::bf16:
      return f(BFloat16());
    case DType::f16:
      return f(Float16());
    case DType::i32:
      return f(std::int32_t());
    case DType::i64:
      return f(std::int64_t());
    default:
      return f(std::uint8_t());
  }
}

}  // namespace

Elements::Elements(DType dtype, Shape shape, const Stream& stream)
    : stream_(stream),
      buffer_(Buffer::allocate(stream.device(), static_cast<std::size_t>(shape.count()) * size_of(dtype) + 1)),
      tensor_(buffer_.data(), dtype, shape, stream.device()) {}

void Elements::set(const std::vector<double>& values) const {
  std::vector<char> bytes(tensor_.bytes());
  const std::size_t width = size_of(tensor_.dtype());
  for (std::size_t i = 0; i < values.size(); ++i) {
    with_type(tensor_.dtype(), [&](auto type) { store<decltype(type)>(bytes.data() + i * width, values[i]); });
  }
  if (!bytes.empty()) stream_.copy(tensor_.raw(), bytes.data(), bytes.size());
  stream_.synchronize();
}

std::vector<double> Elements::get() const {
  std::vector<char> bytes(tensor_.bytes());
  if (!bytes.empty()) stream_.copy(bytes.data(), tensor_.raw(), bytes.size());
  stream_.synchronize();
  std::vector<double> values(static_cast<std::size_t>(tensor_.count()));
  const std::size_t width = size_of(tensor_.dtype());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = with_type(tensor_.dtype(), [&](auto type) { return load<decltype(type)>(bytes.data() + i * width); });
  }
  return values;
}

double rounded(DType dtype, double value) {
  char bytes[8];
  return with_type(dtype, [&](auto type) {
    store<decltype(type)>(bytes, value);
    return load<decltype(type)>(bytes);
  });
}

}  // namespace giro::test
