#pragma once

#include <atomic>
#include <cstdint>

#include <giro/runtime/host_device.h>

#include "runtime/faults.h"

namespace giro::host_device {

// Reports elements that an op rejects. Keeps the first position of the first call, in whatever order threads report:
// words[0] is the minimum of (call, position), words[1] that of (position, element) in that call. Elements are clamped
// to 32 bits. "Atomic functions operating on mapped page-locked memory are not atomic from the point of view of the
// host" (CUDA C++ Programming Guide, Mapped Memory), so the host reads it after the kernel.
struct Fault {
  std::uint64_t* words;
  const std::int64_t* call;

  explicit Fault(const giro::Fault& fault)
      : words(fault.words), call(fault.call ? fault.call.data<std::int64_t>() : nullptr) {}

  GIRO_HOST_DEVICE void operator()(std::int64_t position, std::int64_t element) const {
    if (words == nullptr) return;
    const std::uint64_t number = call != nullptr ? static_cast<std::uint32_t>(*call) : 0;
    const std::uint64_t place = static_cast<std::uint32_t>(position);
    const std::int64_t clamped = element < INT32_MIN ? INT32_MIN : element > INT32_MAX ? INT32_MAX : element;
    if (lower(words[0], number << 32 | place) >> 32 < number) return;  // an earlier call has failed
    lower(words[1], place << 32 | static_cast<std::uint32_t>(clamped));
  }

 private:
  // Returns the previous value.
  static GIRO_HOST_DEVICE std::uint64_t lower(std::uint64_t& word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
    return atomicMin(reinterpret_cast<unsigned long long*>(&word), value);
#else
    const std::atomic_ref<std::uint64_t> shared(word);
    std::uint64_t old = shared.load(std::memory_order_relaxed);
    while (value < old && !shared.compare_exchange_weak(old, value)) {
    }
    return old;
#endif
  }
};

}  // namespace giro::host_device
