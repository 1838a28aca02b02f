#pragma once

#include <string>

#include <giro/kernels/precision.h>

// What the device lacks to compute in that precision; empty if it can.
namespace giro::cpu {
std::string unsupported_reason(Precision precision, Device device);
}
namespace giro::cuda {
std::string unsupported_reason(Precision precision, Device device);
}
