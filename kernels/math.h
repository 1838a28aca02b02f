#pragma once

namespace giro {

// How products of f32 are computed: in f32, or on a device that has it in TF32, where each factor keeps 10 bits of its
// mantissa and sums are f32. Without effect on products of 16-bit values, and on the CPU.
enum class Math { f32, tf32 };

}  // namespace giro
