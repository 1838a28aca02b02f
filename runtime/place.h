#pragma once

#include <cstdint>

namespace giro::detail {

// While work is recorded, its temporaries have no memory. A name stands for the address of each, and counts bytes as
// addresses do (runtime/arena.h). It must not be dereferenced.
inline bool is_name(const void* place) noexcept { return reinterpret_cast<std::uintptr_t>(place) >> 62 == 1; }

// The address of what has that name, in memory that stays as long as the recorded graph. Errors: out_of_memory;
// invalid_argument if it was released before it had any.
void* address_of(const void* name);

}  // namespace giro::detail
