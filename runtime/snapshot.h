#pragma once

#include <memory>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/state.h>

namespace giro {

// Which collections of a state: all, those that a checkpoint needs, or the sharded ones among these.
enum class Collections { all, saved, saved_shards };

// The leaves of a state as they were at one point of its stream: copies in separate memory, made after the work queued
// before, without waiting for it. Move-only; using a moved-from snapshot is an Error(invalid_argument). The copies
// cannot be part of a recording: Error(invalid_argument).
class Snapshot {
 public:
  // Queues the copy. In pinned memory the host can read it, and its leaves are CPU tensors. Errors: out_of_memory,
  // device.
  explicit Snapshot(const State& state, MemoryKind kind = MemoryKind::device,
                    Collections collections = Collections::saved);
  Snapshot(Snapshot&&) noexcept = default;
  Snapshot& operator=(Snapshot&&) noexcept = default;

  // Queues the copy again, into the same memory, after all reads of it on a device. The caller must order reads by the
  // host. `state` may be another state of the same structure, else Error(not_found, shape_mismatch or dtype_mismatch)
  // naming the first leaf that differs, and on the same device, else Error(device_mismatch).
  void update(const State& state);
  // Queues the copy back into a state of the same structure; errors as above. The snapshot may be destroyed at once.
  void write_back(const State& state) const;

  // Whether update() and write_back() accept the state: it has the same structure and lies on the same device.
  bool fits(const State& state) const;

  // Whether the copies are complete.
  bool ready() const;
  // Waits until the copies are complete.
  void wait() const;

  // The leaves in the saved memory, in the state's order. Their contents are complete after wait().
  const std::vector<Leaf>& leaves() const;
  MemoryKind kind() const;
  // What the state declared when it was copied last.
  const std::vector<State::Declared>& declared() const;
  // The stream of the state it was made from.
  const Stream& stream() const;

 private:
  struct Saved;
  Saved& saved() const;
  std::shared_ptr<Saved> saved_;
};

}  // namespace giro
