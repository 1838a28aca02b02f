#pragma once

#include <cstddef>
#include <memory>

namespace giro::cpu {

// Zeros in pages of their own, which take memory once they are written. All of them go back to the system with the last
// owner; blocks of the heap may stay resident. Error(out_of_memory).
std::shared_ptr<void> map(std::size_t bytes);

}  // namespace giro::cpu
