#pragma once

#include "kernels/op_cost.h"

namespace giro::ops {

// A 64-bit digest that detects accidental differences in any byte; not cryptographic. digest[0] = the sum over i,
// modulo 2^64, of mix(word[i] + (i + 1) 0x9E3779B97F4A7C15). mix is from SplitMix64
// (https://prng.di.unimi.it/splitmix64.c); word[i] is the i-th little-endian word of 8 bytes, aligned like
// Collection::bytes(). The result does not depend on the device or the number of threads.
struct Digest {
  static constexpr const char* kName = "digest";
  static constexpr const char* kArguments = "bytes: u8([n]) -> digest: i64()";
  Out digest{};
  In bytes{};

  void check(std::string_view name, const Stream& stream) const;
};

}  // namespace giro::ops
