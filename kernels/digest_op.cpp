#include "kernels/digest_op.h"

#include <cstdint>

#include "runtime/throw_error.h"

namespace giro::ops {

void Digest::check(std::string_view name, const Stream&) const {
  if (bytes.count() % 8 == 0 && reinterpret_cast<std::uintptr_t>(bytes.place()) % 8 == 0) return;
  throw_invalid("{}: bytes is {} at {}, expected whole, aligned 8-byte words", name, to_string(bytes), bytes.place());
}

}  // namespace giro::ops
