#include <fmt/format.h>

#include <vector>

#include <giro/runtime/files/file_system.h>

#include "runtime/files/internal/convert.h"
#include "runtime/files/internal/npy.h"
#include "runtime/internal/throw_error.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"
#include "runtime/tools/elements.h"
#include "runtime/tools/zip_writer.h"

namespace giro::tools {
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
          throw_error(ErrorCode::unsupported,
                      "'{}': tensor '{}' is bf16, which NPY does not have: --widen makes it f32", contents.path,
                      for_terminal(leaf.path));
        }
        widened.resize(static_cast<std::size_t>(value.count()));
        value = Tensor(widened.data(), DType::f32, value.shape(), Device::cpu());
        detail::convert(value, leaf.value);
      }
      zip.add(leaf.path + ".npy", detail::npy_header(value.dtype(), value.shape()),
              {static_cast<const char*>(value.raw()), value.bytes()});
    }
    zip.finish();
  });
  fmt::print("{}: {} arrays from {}\n", out, contents.tensors.size(), contents.path);
  return kGood;
}

}  // namespace giro::tools
