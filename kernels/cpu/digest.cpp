#include <atomic>
#include <cstdint>

#include "kernels/cpu/for_each.h"
#include "kernels/host_device/digest_term.h"
#include "kernels/ops.h"

namespace giro::cpu {

void run(const ops::Digest& op, const Stream& stream) {
  submit(stream, [out = op.digest.data<std::int64_t>(), words = static_cast<const std::uint64_t*>(op.bytes.raw()),
                  n = op.bytes.count() / 8] {
    std::atomic<std::uint64_t> total = 0;  // does not depend on the order
    for_each_block(n, kBlock, n, [&](std::int64_t begin, std::int64_t end) {
      std::uint64_t sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += host_device::digest_term(words[i], i);
      total.fetch_add(sum, std::memory_order_relaxed);
    });
    *out = static_cast<std::int64_t>(total.load());
  });
}

}  // namespace giro::cpu
