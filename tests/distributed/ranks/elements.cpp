#include <cstring>

#include "tests/distributed/ranks/ranks.h"
#include "tests/support/dtypes.h"

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
