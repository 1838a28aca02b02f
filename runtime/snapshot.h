#pragma once

#include <memory>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/state.h>

namespace giro {

// Which of a state's collections: all, those that a checkpoint needs, or of these the ones that are sharded.
enum class Collections { all, saved, saved_shards };

// The leaves of a state as they were at one point of its stream: copies in memory of its own, made after the work that
// was queued before, without waiting for it. Move-only; using what was moved from is an Error(invalid_argument). None
// of this can be part of a recording: Error(invalid_argument).
class Snapshot {
 public:
  // Queues the copy. In pinned memory the host can read it, and its leaves are tensors of the CPU. Errors:
  // out_of_memory, device.
  explicit Snapshot(const State& state, MemoryKind kind = MemoryKind::device,
                    Collections collections = Collections::saved);
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;
  ~Snapshot();

  // Queues the copy anew, into the same memory, after whatever still reads that on a device; the host's own reading is
  // the caller's to order. It may be another state of the same structure, else Error(not_found, shape_mismatch or
  // dtype_mismatch) naming the first leaf that differs; of the same device, else Error(device_mismatch).
  void update(const State& state);
  // Queues the copy back, into a state of the same structure; errors as above. The snapshot may go at once.
  void write_back(const State& state) const;

  // Whether update() and write_back() take the state: it has the same structure and lies on the same device.
  bool fits(const State& state) const;

  // Whether the copies are complete.
  bool ready() const;
  // Waits until they are.
  void wait() const;

  // The leaves in the saved memory, in the state's order. What they hold is complete after wait().
  const std::vector<Leaf>& leaves() const;
  MemoryKind kind() const;
  // That of the state it was made of.
  const Stream& stream() const;

 private:
  struct Saved;
  Saved& saved() const;
  std::shared_ptr<Saved> saved_;
};

}  // namespace giro
