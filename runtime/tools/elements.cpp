#include "runtime/tools/elements.h"

#include <fmt/format.h>

namespace giro::tools {

std::string type_of(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

std::string for_terminal(std::string_view name) {
  const std::string quoted = fmt::format("{:?}", name.substr(0, 200));
  return quoted.substr(1, quoted.size() - 2) + (name.size() > 200 ? "..." : "");
}

}  // namespace giro::tools
