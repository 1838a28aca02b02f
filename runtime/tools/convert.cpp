#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include <giro/runtime/files/save_load.h>

#include "runtime/path_pattern.h"
#include "runtime/throw_error.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {

int convert(const std::string& path, const std::string& out, DType dtype, const std::vector<std::string>& only) {
  Contents contents = load_contents(path);
  std::vector<Leaf> chosen;
  std::vector<bool> is_used(only.size());
  for (const Leaf& leaf : contents.tensors) {
    bool matches = only.empty();
    for (std::size_t i = 0; i < only.size(); ++i) {
      if (!PathPattern(only[i]).match(leaf.path)) continue;
      matches = is_used[i] = true;
    }
    if (matches) chosen.push_back(leaf);
  }
  if (const auto unused = std::find(is_used.begin(), is_used.end(), false); unused != is_used.end()) {
    throw_error(ErrorCode::not_found, "'{}': '{}' matches no tensor", contents.path, only[unused - is_used.begin()]);
  }
  save(out, chosen, {.dtype = dtype, .metadata = contents.metadata});
  const auto converted = std::ranges::count_if(
      chosen, [&](const Leaf& leaf) { return is_floating(leaf.value.dtype()) && leaf.value.dtype() != dtype; });
  fmt::print("{}: {} tensors from {}, {} of them converted to {}\n", out, chosen.size(), contents.path, converted,
             name_of(dtype));
  return kGood;
}

}  // namespace giro::tools
