#pragma once

#include <cstdint>

#include <giro/kernels/slots.h>
#include <giro/runtime/host_device.h>

namespace giro::host_device {

// The address of the call's slot.
struct CurrentSlot {
  char* first;
  std::int64_t bytes;
  std::int64_t count;
  const std::int64_t* call;

  explicit CurrentSlot(const ByteRing& ring)
      : first(static_cast<char*>(ring.slots.raw())),
        bytes(ring.bytes()),
        count(ring.count()),
        call(ring.call.data<std::int64_t>()) {}

  GIRO_HOST_DEVICE char* operator()() const { return first + *call % count * bytes; }
};

}  // namespace giro::host_device
