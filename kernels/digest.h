#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// A 64-bit digest that detects accidental differences in any byte; not cryptographic. digest[0] = the sum over i,
// modulo 2^64, of mix(word[i] + (i + 1) 0x9E3779B97F4A7C15). mix is from SplitMix64
// (https://prng.di.unimi.it/splitmix64.c); word[i] is the i-th little-endian word of 8 bytes. The result does not
// depend on the device or the number of threads.
//
// digest i64 scalar; bytes u8 (8 N,), aligned to 8 bytes like Collection::bytes(). Errors: shape_mismatch,
// dtype_mismatch, device_mismatch; invalid_argument if the bytes are not whole words or not aligned.
void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream);

}  // namespace giro
