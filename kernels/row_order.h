#pragma once

#include <cstdint>

#include <giro/runtime/host_device.h>
#include <giro/runtime/rng.h>

namespace giro {

// Maps the positions of an endless sequence of epochs to rows of a dataset. Each epoch is a permutation keyed by (seed,
// epoch), or the rows in order.
struct RowOrder {
  std::int64_t size = 1;  // rows, at least 1
  std::uint64_t seed = 0;
  bool shuffled = false;

  GIRO_HOST_DEVICE std::int64_t operator()(std::int64_t position) const {
    // A single unsigned division: the cheapest for a GPU thread.
    const auto at = static_cast<std::uint64_t>(position), rows = static_cast<std::uint64_t>(size), epoch = at / rows;
    const std::uint64_t index = at - epoch * rows;
    return static_cast<std::int64_t>(shuffled ? permutation(static_cast<std::int64_t>(epoch))(index) : index);
  }
  // The same for `count` positions from `first` on.
  void rows(std::int64_t first, std::int64_t count, std::int64_t* out) const;

  GIRO_HOST_DEVICE KeyedPermutation permutation(std::int64_t epoch) const {
    return {static_cast<std::uint64_t>(size), Rng{seed, RngPurpose::shuffle, static_cast<std::uint64_t>(epoch)}};
  }
};

}  // namespace giro
