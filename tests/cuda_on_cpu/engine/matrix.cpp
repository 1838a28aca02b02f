#include "tests/cuda_on_cpu/engine/matrix.h"

#include <bit>
#include <cstdint>

namespace giro::simt {
namespace {

constexpr unsigned int kRows = 16, kColumns = 8, kTerms = 16;

double half_of(std::uint32_t word, unsigned int which, bool is_bf16) {
  const auto bits = static_cast<std::uint16_t>(word >> (16 * which));
  return is_bf16 ? double{std::bit_cast<float>(std::uint32_t{bits} << 16)} : double{std::bit_cast<_Float16>(bits)};
}

}  // namespace

// Section "Matrix Fragments for mma.m16n8k16 with floating point type" of the PTX manual. Lane 4 g + q has row g, or
// g + 8, of a and of the sums, and column g of b; its terms, or columns of the sums, are 2 q and 2 q + 1, or 8 more.
void multiply(const std::array<MatrixPart*, Limits::kWarp>& parts, bool is_bf16) {
  double a[kRows][kTerms], b[kTerms][kColumns];
  for (unsigned int lane = 0; lane < Limits::kWarp; ++lane) {
    const unsigned int g = lane / 4, q = lane % 4;
    for (unsigned int i = 0; i < 2; ++i) {
      for (unsigned int word = 0; word < 4; ++word) {
        a[g + word % 2 * 8][2 * q + i + word / 2 * 8] = half_of(parts[lane]->a[word], i, is_bf16);
      }
      for (unsigned int word = 0; word < 2; ++word) {
        b[2 * q + i + word * 8][g] = half_of(parts[lane]->b[word], i, is_bf16);
      }
    }
  }
  for (unsigned int lane = 0; lane < Limits::kWarp; ++lane) {
    for (unsigned int i = 0; i < 4; ++i) {
      const unsigned int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = double{parts[lane]->sums[i]};
      for (unsigned int term = 0; term < kTerms; ++term) sum += a[row][term] * b[term][column];
      parts[lane]->sums[i] = static_cast<float>(sum);
    }
  }
}

}  // namespace giro::simt
