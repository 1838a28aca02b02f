#pragma once

#include <cstddef>

namespace giro::cpu {

// Memory that a thread keeps: one op after the other finds it in the cache. Aligned for any vector.
std::byte* memory_of_thread(std::size_t bytes);

}  // namespace giro::cpu
