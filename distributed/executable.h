#pragma once

#include <string>

namespace giro::detail {

// Identifies the build of the running program: the linker's build id, or the file size if there is none. Copies of a
// program have the same id.
std::string executable_id();

}  // namespace giro::detail
