// The program that python_files_test.py runs:
//   leaves write FILE    writes a file with every dtype and kind of shape
//   leaves print FILE    reads a file and prints one line for each leaf: its path, dtype, shape and elements

#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include <giro/runtime/files/save_load.h>

namespace {

using giro::BFloat16;
using giro::Device;
using giro::DType;
using giro::Float16;
using giro::Leaf;
using giro::Shape;
using giro::Tensor;

void write(const std::string& path) {
  std::vector<float> f32{1.5f, -2, std::numeric_limits<float>::infinity(), 0, 1e-40f, 3.4e38f}, empty;
  std::vector<double> f64{0.1};
  std::vector<Float16> f16{Float16(0.5f), Float16(-65504.f)};
  std::vector<BFloat16> bf16{BFloat16(1.f), BFloat16(-2.5f)};
  std::vector<std::int32_t> i32{-1, std::numeric_limits<std::int32_t>::min()};
  std::vector<std::int64_t> i64{std::numeric_limits<std::int64_t>::max()};
  std::vector<std::uint8_t> u8{0, 1, 255}, flags{0, 1};
  const auto leaf = [](const std::string& name, auto& values, const Shape& shape, DType dtype) {
    return Leaf{name, Tensor(values.data(), dtype, shape, Device::cpu())};
  };
  giro::save(path, {leaf("params/f32", f32, {2, 3}, DType::f32), leaf("empty", empty, {0, 4}, DType::f32),
                    leaf("scalar", f64, {}, DType::f64), leaf("f16", f16, {2}, DType::f16),
                    leaf("bf16", bf16, {2, 1}, DType::bf16), leaf("i32", i32, {2}, DType::i32),
                    leaf("i64", i64, {1, 1, 1}, DType::i64), leaf("u8", u8, {3}, DType::u8),
                    leaf("bool \xc3\xa9", flags, {2}, DType::boolean)});
}

void print(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::f32:
      std::printf(" %.9g", static_cast<double>(tensor.data<float>()[i]));
      break;
    case DType::bf16:
      std::printf(" %.9g", static_cast<double>(static_cast<float>(tensor.data<BFloat16>()[i])));
      break;
    case DType::f16:
      std::printf(" %.9g", static_cast<double>(static_cast<float>(tensor.data<Float16>()[i])));
      break;
    case DType::f64:
      std::printf(" %.17g", tensor.data<double>()[i]);
      break;
    case DType::i32:
      std::printf(" %d", tensor.data<std::int32_t>()[i]);
      break;
    case DType::i64:
      std::printf(" %lld", static_cast<long long>(tensor.data<std::int64_t>()[i]));
      break;
    case DType::u8:
    case DType::boolean:
      std::printf(" %d", static_cast<const std::uint8_t*>(tensor.raw())[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::strcmp(argv[1], "write") == 0) {
      write(argv[2]);
    } else if (argc == 3 && std::strcmp(argv[1], "print") == 0) {
      const giro::Safetensors file = giro::load(argv[2]);
      for (const Leaf& leaf : file.tensors) {
        const std::string dtype(giro::name_of(leaf.value.dtype()));
        std::printf("%s|%s|%s|", leaf.path.c_str(), dtype.c_str(), giro::to_string(leaf.value.shape()).c_str());
        for (std::int64_t i = 0; i < leaf.value.count(); ++i) print(leaf.value, i);
        std::printf("\n");
      }
    } else {
      std::fputs("usage: leaves write|print FILE\n", stderr);
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
