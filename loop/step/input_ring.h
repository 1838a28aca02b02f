#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <giro/kernels/slots.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/step/broadcasts.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/stream.h>

namespace giro::detail {

// The inputs of a recorded step's calls: the position of a resident batch or the features of a batch from the host, and
// broadcasts. Each call has a slot of a ring, which the host fills ahead of the device; the recording finds its slot by
// the call's number. So batches may come in any order, and many calls may wait for one launch.
//
// On a GPU a slot is in pinned memory and on the device. A side stream copies features as soon as they are written;
// small inputs are copied in one piece before the launch. On the CPU, work is done when it is queued, so one slot is
// enough for features, and the step reads them in place.
class InputRing {
 public:
  // For calls with a batch and broadcasts like these. `call` is an i64 scalar on the device, 0 at the first call.
  InputRing(const Batch& like, const Broadcasts& broadcasts, const Tensor& call, const DeviceContext& context);

  // On the step's device.
  std::size_t bytes() const noexcept { return (slots_.size() > 0 ? slots_.size() : staging_.size()) + fixed_.size(); }
  // How many calls may be in flight at once.
  std::int64_t capacity() const noexcept { return ring_.count(); }

  // Writes the input of call number `call`. At most capacity() - 1 earlier calls may still be waiting to run.
  void fill(std::int64_t call, const Batch& batch, const Broadcasts& broadcasts);
  // Sends the filled slots to the device; call it before the launch that reads them.
  void flush();

  // Queues or records the copies that fill batch() and broadcasts() for the call.
  void take() const;
  // On the device. A resident batch has positions() instead.
  const Batch& batch() const noexcept { return batch_; }
  const Broadcasts& broadcasts() const noexcept { return broadcasts_; }
  const ByteRing& positions() const noexcept { return ring_; }

 private:
  static constexpr std::int64_t kMaxSlots = 512;
  static constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;  // or two slots, however large they are

  // Where a tensor lies in a slot.
  struct Field {
    std::int64_t offset;
    std::size_t bytes;
  };
  Field reserve(std::size_t bytes, std::int64_t alignment);
  void upload(std::int64_t first_slot, std::int64_t slots, const Stream& stream) const;

  Stream stream_;
  std::optional<Stream> copies_;  // the side stream
  std::optional<Event> copied_;
  std::vector<Field> features_, values_;
  std::int64_t fixed_from_ = 0;  // the part of a slot before this, the position, is read in place
  std::int64_t slot_bytes_ = 0;
  Buffer staging_;  // on the host
  Buffer slots_;    // on the device; empty if the device reads `staging_`
  Buffer fixed_;    // where the step reads its call's input; empty if it reads the slot
  Tensor fixed_bytes_;
  ByteRing ring_;
  Batch batch_;
  Broadcasts broadcasts_;
  std::int64_t filled_ = 0, flushed_ = 0;  // calls
};

}  // namespace giro::detail
