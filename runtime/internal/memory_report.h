#pragma once

#include <string>

namespace giro::detail {

struct Recording;

// For an out-of-memory error: the memory that the recording has needed so far, and the free memory of its device.
std::string memory_report(const Recording& recording, const std::string& name);

}  // namespace giro::detail
