#pragma once

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

// What the calls of a recorded step are given: the position of a resident batch, or the features of one from the host,
// and broadcasts. Each call has a slot of a ring, which the host fills ahead of the device; the recording finds its
// slot by the number of the call. So calls may come in any order of batches, and many of them may wait for one launch.
//
// On a GPU a slot lies in pinned memory and on the device: features are copied over by a side stream as soon as they
// are there, what is small goes over in one piece before the launch. On the CPU, where work is done when it is queued,
// one slot is enough for features, and the step reads them where they lie.
class InputRing {
 public:
  // For calls with a batch and broadcasts like these. `call` is an i64 scalar on the device, 0 at the first call.
  InputRing(const Batch& like, const Broadcasts& broadcasts, const Tensor& call, const DeviceContext& context);

  // How many calls may be on their way at once.
  std::int64_t capacity() const noexcept { return ring_.count(); }

  // Writes what call number `call` is given; all before it but capacity() - 1 have run.
  void fill(std::int64_t call, const Batch& batch, const Broadcasts& broadcasts);
  // Sends what was filled on its way, before the launch that reads it.
  void flush();

  // Queues, or records, what makes batch() and broadcasts() those of the call.
  void take() const;
  // On the device. Of a resident batch there are the positions instead.
  const Batch& batch() const noexcept { return batch_; }
  const Broadcasts& broadcasts() const noexcept { return broadcasts_; }
  const SlotRing& positions() const noexcept { return ring_; }

 private:
  static constexpr std::int64_t kMaxSlots = 512;
  static constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;  // but for two slots, however large they are

  // Where a tensor lies in a slot.
  struct Place {
    std::int64_t offset;
    std::size_t bytes;
  };
  Place place(std::size_t bytes, std::int64_t alignment);
  char* staged(std::int64_t call) const;
  void upload(std::int64_t first_slot, std::int64_t slots, const Stream& stream) const;

  Stream stream_;
  std::optional<Stream> copies_;  // the side stream
  std::optional<Event> copied_;
  std::vector<Place> features_, values_;
  std::int64_t fixed_from_ = 0;  // what lies before it in a slot stays there: the position
  std::int64_t slot_bytes_ = 0;
  Buffer staging_;  // of the host
  Buffer slots_;    // of the device, unless it reads the host's
  Buffer fixed_;    // where the step reads its call's, unless it reads the slot
  Tensor fixed_bytes_;
  SlotRing ring_;
  Batch batch_;
  Broadcasts broadcasts_;
  std::int64_t filled_ = 0, flushed_ = 0;  // calls
};

}  // namespace giro::detail
