#pragma once

#include <string>

#include <giro/runtime/error.h>

#include "runtime/program/recording.h"

namespace giro::detail {

// An out-of-memory error of a recording, with the memory that it has needed so far, and the free memory of its device.
Error with_memory_report(const Error& error, const Recording& recording, const std::string& name);

}  // namespace giro::detail
