#include <fmt/format.h>

#include <string_view>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/file_system.h>

#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"
#include "runtime/tools/elements.h"
#include "runtime/tools/zip_writer.h"

namespace giro::tools {
namespace {

// NumPy's name for a dtype; empty for bf16, which it does not have.
std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "<f4";
    case DType::bf16:
      return "";
    case DType::f16:
      return "<f2";
    case DType::f64:
      return "<f8";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::boolean:
      return "|b1";
  }
  return "";
}

// The header of the NPY format, version 1.0; the data after it begins at a multiple of 64 bytes.
std::string npy_header(DType dtype, const Shape& shape) {
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", numpy_name(dtype), to_string(shape));
  const std::size_t size = (kPrefix + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix;
  text.resize(size - 1, ' ');
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(size & 0xff) + static_cast<char>(size >> 8) + text + "\n";
}

}  // namespace

int export_npz(const std::string& path, const std::string& out, bool widen) {
  const Contents contents = load_contents(path);
  const auto files = posix_file_system();
  replace_file(*files, out, [&](FileSystem::Writer& writer) {
    ZipWriter zip(writer);
    for (const Leaf& leaf : contents.tensors) {
      Tensor value = leaf.value;
      std::vector<float> widened;
      if (value.dtype() == DType::bf16) {
        if (!widen) {
          throw Error(ErrorCode::unsupported,
                      fmt::format("'{}': tensor '{}' is bf16, which NPY does not have: --widen makes it f32",
                                  contents.path, for_terminal(leaf.path)));
        }
        const BFloat16* const elements = value.data<BFloat16>();
        widened.assign(elements, elements + value.count());
        value = Tensor(widened.data(), DType::f32, value.shape(), Device::cpu());
      }
      zip.add(leaf.path + ".npy", npy_header(value.dtype(), value.shape()),
              {static_cast<const char*>(value.raw()), value.bytes()});
    }
    zip.finish();
  });
  fmt::print("{}: {} arrays of {}\n", out, contents.tensors.size(), contents.path);
  return kGood;
}

}  // namespace giro::tools
