#pragma once

#include <string>

namespace giro::detail {

struct Recording;

// What a recording that has run out of memory needs, as far as it is made, and what its device has: for the error.
std::string memory_report(const Recording& recording, const std::string& name);

}  // namespace giro::detail
