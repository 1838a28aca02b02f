#pragma once

#include <string>

#include <giro/kernels/nn/precision.h>

// What the device lacks to compute in that precision; empty if it can.
namespace giro::cpu {
std::string what_is_missing(Precision precision);
}
namespace giro::cuda {
std::string what_is_missing(Precision precision, Device device);
}
