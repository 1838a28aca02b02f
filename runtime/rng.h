#pragma once

#include <cstdint>

#include <giro/runtime/host_device.h>

namespace giro {

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), the
// counter-based generator of Random123: 128 bits that are a pure function of key and counter.
struct PhiloxBlock {
  std::uint32_t word[4];
};

// Always inline, so that loops over it can be vectorized.
GIRO_HOST_DEVICE __attribute__((always_inline)) inline PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low,
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

// What the random numbers of a seed are for. One seed serves all purposes: no two share a block.
enum class RngPurpose : std::uint8_t {
  initial_value = 0,
  shuffle = 1,
  draw = 2,           // the numbers of an op; its seed is a key (kernels/nn/random.h)
  key = 3,            // a key derived from another
  application = 255,  // for the user's program; giro draws none of them
};

// A stream of random numbers identified by (seed, purpose, stream): number i is the same on every host and device,
// regardless of where and in which order numbers are drawn.
struct Rng {
  std::uint64_t seed = 0;
  RngPurpose purpose = RngPurpose::application;
  std::uint64_t stream = 0;  // below 2^56: which use of the seed for this purpose, e.g. a leaf, a step, an epoch

  // Numbers 4 i to 4 i + 3.
  GIRO_HOST_DEVICE PhiloxBlock block(std::uint64_t i) const {
    constexpr std::uint64_t kStreams = std::uint64_t{1} << 56;
    return philox(seed, i, static_cast<std::uint64_t>(purpose) * kStreams + stream % kStreams);
  }
  GIRO_HOST_DEVICE std::uint32_t bits(std::uint64_t i) const { return block(i / 4).word[i % 4]; }
  // In [0, 1), a multiple of 2^-24.
  GIRO_HOST_DEVICE float uniform(std::uint64_t i) const {
    return static_cast<float>(bits(i) >> 8) * (1.0f / 16777216.0f);
  }
};

// A random permutation of [0, size) that needs no table, keyed by a stream of random numbers. Up to kTableSize elements
// it is drawn with Fisher-Yates, so all permutations are equally likely. Above, it is an eight-round Feistel network
// over the next power of four, applied until the result is below size (fewer than four tries on average).
class KeyedPermutation {
 public:
  static constexpr std::uint64_t kTableSize = 16;

  KeyedPermutation() = default;
  // size >= 1.
  GIRO_HOST_DEVICE KeyedPermutation(std::uint64_t size, const Rng& rng) : size_(size) {
    if (size <= kTableSize) {
      draw(rng);
      return;
    }
    half_bits_ = (65 - __builtin_clzll(size - 1)) / 2;
    const PhiloxBlock low = rng.block(0), high = rng.block(1), last = rng.block(2);
    for (int i = 0; i < 4; ++i) {
      key_[i] = low.word[i];
      key_[i + 4] = high.word[i];
    }
    // The rounds produce even permutations only, so every second key also swaps a pair of neighbours.
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 2 * half_bits_);
    if ((last.word[0] & 1) != 0) swapped_ = ((std::uint64_t{last.word[2]} << 32 | last.word[1]) & mask) | 1;
  }

  // The new position of `index`, which is below size.
  GIRO_HOST_DEVICE std::uint64_t operator()(std::uint64_t index) const {
    if (size_ <= kTableSize) return table_ >> (4 * index) & 15;
    do {
      index = feistel(index);
    } while (index >= size_);
    return index;
  }

 private:
  // Fisher-Yates on sixteen numbers of four bits.
  GIRO_HOST_DEVICE void draw(const Rng& rng) {
    PhiloxBlock block{};
    for (std::uint64_t i = size_ - 1; i > 0; --i) {
      const std::uint64_t drawn = size_ - 1 - i;
      if (drawn % 4 == 0) block = rng.block(drawn / 4);
      const std::uint64_t j = std::uint64_t{block.word[0]} * (i + 1) >> 32;  // in [0, i]
      // Shifts the next word to the front: a variable index would put the block into local memory on a GPU.
      for (int word = 0; word < 3; ++word) block.word[word] = block.word[word + 1];
      const std::uint64_t difference = (table_ >> (4 * i) ^ table_ >> (4 * j)) & 15;
      table_ ^= difference << (4 * i);
      table_ ^= difference << (4 * j);
    }
  }

  // One pass over the next power of four.
  GIRO_HOST_DEVICE std::uint64_t feistel(std::uint64_t index) const {
    if ((index | 1) == swapped_) index ^= 1;
    const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << half_bits_) - 1);
    std::uint32_t left = static_cast<std::uint32_t>(index >> half_bits_);
    std::uint32_t right = static_cast<std::uint32_t>(index) & mask;
    for (int round = 0; round < 8; ++round) {
      const std::uint32_t next = left ^ (mix(right ^ key_[round]) & mask);
      left = right;
      right = next;
    }
    return (std::uint64_t{left} << half_bits_) | right;
  }

  // The finalizer of MurmurHash3.
  GIRO_HOST_DEVICE static std::uint32_t mix(std::uint32_t h) {
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ (h >> 16);
  }

  std::uint64_t size_ = 1;
  std::uint64_t table_ = 0xFEDCBA9876543210;  // up to kTableSize: the new position of i, in bits 4 i to 4 i + 3
  std::uint64_t swapped_ = 0;                 // the odd index of the swapped pair; 0 for none
  int half_bits_ = 1;
  std::uint32_t key_[8] = {};
};

}  // namespace giro
