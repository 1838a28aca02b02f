#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// 64 bits that tell apart what differs in any byte, as good as surely: not against anybody who means to deceive.
// digest[0] = the sum over i, modulo 2^64, of mix(word[i] + (i + 1) 0x9E3779B97F4A7C15), with the mix of SplitMix64
// (https://prng.di.unimi.it/splitmix64.c) and the bytes as little-endian words of 8. The same on every device and
// however many threads compute it.
//
// digest i64 scalar; bytes u8 (8 N,), at a multiple of 8 bytes, as Collection::bytes() is. Errors: shape_mismatch,
// dtype_mismatch, device_mismatch; invalid_argument for bytes that are no whole words or lie at another address.
void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream);

}  // namespace giro
