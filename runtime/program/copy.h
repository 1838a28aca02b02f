#pragma once

#include <giro/runtime/stream.h>

#include "runtime/in_out.h"

namespace giro::ops {

// Copies the bytes of a tensor to another tensor of the same size.
struct Copy {
  static constexpr const char* kName = "copy";
  static constexpr const char* kArguments = "from: * -> to: *";
  static constexpr bool kTakesHostMemory = true;
  Out to{};
  In from{};
};
void run(const Copy& op, const Stream& stream);

}  // namespace giro::ops
