#pragma once

#include <string>

namespace giro::detail {

// Tells builds of the running program apart: the build id that the linker has put in, or where there is none the size
// of the file. The same for copies of a program.
std::string executable_id();

}  // namespace giro::detail
