#pragma once

#include <cstdint>

struct CUstream_st;

namespace giro::test {

// On a GPU: y = x^2 w, and its gradients with respect to x and w.
void bend(float* y, const float* x, const float* w, std::int64_t n, CUstream_st* stream);
void bend_dx(float* dx, const float* dy, const float* x, const float* w, std::int64_t n, CUstream_st* stream);
void bend_dw(float* dw, const float* dy, const float* x, std::int64_t n, CUstream_st* stream);
// Makes an invalid launch.
void launch_nothing(CUstream_st* stream);
// Waits for the stream, which cannot be recorded, and ignores the error.
void wait_for(CUstream_st* stream);

}  // namespace giro::test
