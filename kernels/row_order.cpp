#include <giro/kernels/row_order.h>

#include <algorithm>
#include <numeric>

namespace giro {

void RowOrder::rows(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  while (count > 0) {
    const std::int64_t begin = first % size, in_epoch = std::min(count, size - begin);
    if (shuffled) {
      const KeyedPermutation order = permutation(first / size);
      for (std::int64_t i = 0; i < in_epoch; ++i) {
        out[i] = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(begin + i)));
      }
    } else {
      std::iota(out, out + in_epoch, begin);
    }
    first += in_epoch;
    out += in_epoch;
    count -= in_epoch;
  }
}

}  // namespace giro
