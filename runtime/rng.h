#pragma once

#include <cstdint>

#include <giro/runtime/host_device.h>

namespace giro {

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), the
// counter-based generator of Random123: 128 bits that are a pure function of key and counter.
struct PhiloxBlock {
  std::uint32_t word[4];
};

GIRO_HOST_DEVICE inline PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low,
                                           std::uint64_t counter_high = 0) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock c{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                 static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.word[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// A stream of random numbers named by (seed, stream): number i is the same on every host and device, whoever
// asks for it and in whatever order.
struct Rng {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // which use of the seed: a leaf, a step, an epoch

  GIRO_HOST_DEVICE std::uint32_t bits(std::uint64_t i) const { return philox(seed, i / 4, stream).word[i % 4]; }
  // In [0, 1), a multiple of 2^-24.
  GIRO_HOST_DEVICE float uniform(std::uint64_t i) const {
    return static_cast<float>(bits(i) >> 8) * (1.0f / 16777216.0f);
  }
};

// A pseudo-random permutation of [0, size) that needs no table: an eight-round Feistel network over the next
// even power of two, walked until it lands inside (fewer than four tries on average).
class KeyedPermutation {
 public:
  KeyedPermutation() = default;
  // size >= 1.
  GIRO_HOST_DEVICE KeyedPermutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) : size_(size) {
    while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
    const PhiloxBlock low = philox(seed, 0, stream), high = philox(seed, 1, stream);
    for (int i = 0; i < 4; ++i) {
      key_[i] = low.word[i];
      key_[i + 4] = high.word[i];
    }
  }

  // Where index (below size) goes.
  GIRO_HOST_DEVICE std::uint64_t operator()(std::uint64_t index) const {
    const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << half_bits_) - 1);
    do {
      std::uint32_t left = static_cast<std::uint32_t>(index >> half_bits_);
      std::uint32_t right = static_cast<std::uint32_t>(index) & mask;
      for (int round = 0; round < 8; ++round) {
        const std::uint32_t next = left ^ (mix(right ^ key_[round]) & mask);
        left = right;
        right = next;
      }
      index = (std::uint64_t{left} << half_bits_) | right;
    } while (index >= size_);
    return index;
  }

 private:
  // The finalizer of MurmurHash3.
  GIRO_HOST_DEVICE static std::uint32_t mix(std::uint32_t h) {
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ (h >> 16);
  }

  std::uint64_t size_ = 1;
  int half_bits_ = 1;
  std::uint32_t key_[8] = {};
};

}  // namespace giro
