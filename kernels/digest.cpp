#include <giro/kernels/digest.h>

#include <cstdint>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream) {
  checks::on_device("digest", {{"digest", digest}, {"bytes", bytes}}, stream);
  checks::has_dtype_and_shape("digest", {"digest", digest}, DType::i64, {});
  checks::has_dtype("digest", {"bytes", bytes}, DType::u8);
  if (bytes.count() % 8 != 0 || reinterpret_cast<std::uintptr_t>(bytes.raw()) % 8 != 0) {
    throw_error(ErrorCode::invalid_argument, "digest: bytes is {} at {}, expected whole, aligned 8-byte words",
                to_string(bytes), bytes.raw());
  }
  queue(ops::Digest{digest, bytes}, stream);
}

}  // namespace giro
