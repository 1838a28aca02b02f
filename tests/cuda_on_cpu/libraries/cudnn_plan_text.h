#pragma once

#include <memory>
#include <string>

#include "tests/cuda_on_cpu/libraries/cudnn_descriptor.h"

namespace cuda_on_cpu::dnn {

// A plan's engine configuration as JSON, from which another process can make the plan again. It has no handles.
std::string write_plan(const Descriptor& configuration);

// Returns CUDNN_STATUS_BAD_PARAM if it is damaged, and CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH for another version of
// cuDNN, as cuDNN 9.19 does (ctest cudnn_real_codes).
cudnnStatus_t read_plan(const std::string& json, std::shared_ptr<Descriptor>& configuration);

}  // namespace cuda_on_cpu::dnn
