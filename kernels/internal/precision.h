#pragma once

#include <string>

#include <giro/kernels/nn/precision.h>

// What a device would need to compute in a precision other than f32; empty if it does.
namespace giro::cpu {
std::string what_is_missing(Precision precision);
}
namespace giro::cuda {
std::string what_is_missing(Precision precision, Device device);
}
