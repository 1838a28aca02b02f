#include <giro/runtime/snapshot.h>

#include <giro/runtime/error.h>
#include <giro/runtime/stream.h>

#include "runtime/collection.h"
#include "runtime/throw_error.h"

namespace giro {

struct Snapshot::Saved {
  Saved(const State& state, MemoryKind kind, Collections which)
      : which(which),
        device(state.device()),
        stream(state.stream()),
        structure(collections_of(state, which)),
        copied(state.stream()),
        read(state.stream()) {
    const std::vector<const Collection*> collections = collections_of(state, which);
    std::size_t total = 0;
    for (const Collection* collection : collections) total += padded(collection->bytes().bytes());
    memory = Buffer::allocate(device, total, kind);
    const Device seen_from = kind == MemoryKind::pinned ? Device::cpu() : device;
    char* data = static_cast<char*>(memory.data());
    for (const Collection* collection : collections) {
      const Tensor source = collection->bytes();
      for (const Leaf& leaf : collection->leaves()) {
        const auto offset = static_cast<const char*>(leaf.value.raw()) - static_cast<const char*>(source.raw());
        leaves.push_back(
            {leaf.path, Tensor(data + offset, leaf.value.dtype(), leaf.value.shape(), seen_from), leaf.piece});
      }
      parts.push_back(Tensor(data, DType::u8, source.shape(), seen_from));
      data += padded(source.bytes());
    }
  }

  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  }

  // The collections of the state that correspond to `parts`.
  std::vector<const Collection*> matching(const char* call, const State& state) const {
    if (state.stream().is_recording()) {
      throw_invalid("{}: the state's stream is recording, and the recorded work has not run yet", call);
    }
    if (state.device() != device) {
      throw_error(ErrorCode::device_mismatch, "{}: the state is on {}, but the snapshot is of one on {}", call,
                  to_string(state.device()), to_string(device));
    }
    std::vector<const Collection*> collections = collections_of(state, which);
    structure.expect_same(call, Structure(collections));
    return collections;
  }

  // Calls queue(part, the state's part), which queues a copy, for each part, and then records `done`.
  template <class Queue>
  void transfer(const char* call, const State& state, Event& done, Queue&& queue) {
    const std::vector<const Collection*> collections = matching(call, state);
    state.stream().wait(copied);
    state.stream().wait(read);  // there is one event for all reads
    for (std::size_t i = 0; i < collections.size(); ++i) queue(parts[i], collections[i]->bytes());
    done.record(state.stream());
  }

  const Collections which;
  const Device device;
  const Stream stream;
  const Structure structure;
  Buffer memory;
  std::vector<Tensor> parts;  // each collection's bytes, within `memory`
  std::vector<Leaf> leaves;
  std::vector<State::Declared> declared;
  Event copied, read;  // after the latest copy into `memory`, and after the latest read from it
};

Snapshot::Snapshot(const State& state, MemoryKind kind, Collections collections)
    : saved_(std::make_shared<Saved>(state, kind, collections)) {
  const detail::ContextUse use(state.context());
  update(state);
}

Snapshot::Saved& Snapshot::saved() const {
  if (saved_ == nullptr) throw_invalid("this snapshot was moved from");
  return *saved_;
}

void Snapshot::update(const State& state) {
  Saved& saved = this->saved();
  saved.transfer("a snapshot", state, saved.copied,
                 [&](const Tensor& part, const Tensor& of_state) { copy(part, of_state, state.stream()); });
  saved.declared = state.declared();
}

void Snapshot::write_back(const State& state) const {
  Saved& saved = this->saved();
  saved.transfer("write_back", state, saved.read,
                 [&](const Tensor& part, const Tensor& of_state) { copy(of_state, part, state.stream()); });
}

bool Snapshot::fits(const State& state) const {
  try {
    (void)saved().matching("fits", state);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool Snapshot::ready() const { return saved().copied.query(); }
void Snapshot::wait() const { saved().copied.synchronize(); }
const std::vector<Leaf>& Snapshot::leaves() const { return saved().leaves; }
const Stream& Snapshot::stream() const { return saved().stream; }
const std::vector<State::Declared>& Snapshot::declared() const { return saved().declared; }
MemoryKind Snapshot::kind() const { return saved().memory.kind(); }

}  // namespace giro
