#pragma once

// How translated code registers its kernels and variables with the engine. Keep this file small: every kernel that is
// compiled while a test runs includes it.

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace giro::simt {

class Thread;

struct Dim3 {
  unsigned int x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// The emulated device has an A100's limits (compute capability 8.0).
struct Limits {
  static constexpr unsigned int kThreads = 1024, kBlockZ = 64, kWarp = 32;
  static constexpr unsigned int kGridX = 0x7fffffff, kGridYZ = 65535;
  static constexpr std::size_t kSharedBytes = 48 << 10, kSharedBytesOptIn = 163 << 10;
};

// A kernel's parameter and its place in the PTX parameter block.
struct Parameter {
  std::size_t offset, bytes;
};

// Translated code registers its contents through static objects of these types.
struct KernelRegistration {
  // `name` is mangled, as __cudaRegisterFunction gives it. See Kernel (engine.h) for the rest.
  KernelRegistration(const char* name, void (*run)(Thread&), std::initializer_list<Parameter> parameters,
                     std::size_t parameter_bytes, std::size_t static_shared_bytes, unsigned int max_threads, bool waits,
                     std::uint32_t first_site);
};
struct VariableRegistration {
  // A __device__ or __constant__ variable, by its mangled name.
  VariableRegistration(const char* name, void* address, std::size_t bytes);
};

// Assigns consecutive numbers to `count` texts, each a place in a source file, and returns the first number. The texts
// must outlive the process's last launch.
std::uint32_t add_sites(const char* const* texts, std::size_t count);

}  // namespace giro::simt
