#pragma once

#include <giro/runtime/stream.h>

#include "runtime/program/arguments.h"

namespace giro::ops {

// The bytes of one tensor to another of as many.
struct Copy {
  static constexpr const char* kName = "copy";
  Out to{};
  In from{};
};
void run(const Copy& op, const Stream& stream);

}  // namespace giro::ops
