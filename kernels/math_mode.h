#pragma once

namespace giro {

// How f32 products are computed: in f32, or in TF32 on devices that have it, where each factor keeps 10 bits of its
// mantissa and sums are f32. No effect on products of 16-bit values, and none on the CPU.
enum class MathMode { f32, tf32 };

}  // namespace giro
