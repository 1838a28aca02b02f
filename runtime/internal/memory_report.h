#pragma once

#include <string>

namespace giro::detail {

struct Recording;

// What a recording that ran out of memory needs, as far as it was recorded, and what its device has: for the error.
std::string memory_report(const Recording& recording, const std::string& name);

}  // namespace giro::detail
