#pragma once

namespace giro::cuda {

// Nothing happens where there is no GPU.
void set_profiling(bool on);

}  // namespace giro::cuda
