#include "kernels/cpu/thread_memory.h"

#include <memory>
#include <new>

namespace giro::cpu {

std::byte* memory_of_thread(std::size_t bytes) {
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(4096)); }
  };
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset();
    size = 0;
    memory.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(4096))));
    size = bytes;
  }
  return memory.get();
}

}  // namespace giro::cpu
