#pragma once

#include <cstddef>

namespace giro::cpu {

// Memory that a thread reuses from op to op, so that it stays in the cache. Aligned for any vector.
std::byte* memory_of_thread(std::size_t bytes);

}  // namespace giro::cpu
