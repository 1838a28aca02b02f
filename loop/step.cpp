#include <giro/loop/step.h>

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/graph.h>

namespace giro::detail {
namespace {

bool same_features(const Batch::Features& a, const Batch::Features& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype() == y.second.dtype() && x.second.shape() == y.second.shape();
  });
}

// Fixed places on the device that batches from the host are copied to. On a GPU they pass through pinned memory, a few
// batches deep, so that the copy is queued like any other work.
class Inputs {
 public:
  Inputs(const Batch& like, const Stream& stream) : stream_(stream) {
    Batch::Features features;
    for (const auto& [name, tensor] : like.features()) {
      storage_.push_back(Buffer::allocate(stream.device(), tensor.bytes()));
      features.emplace_back(name, Tensor(storage_.back().data(), tensor.dtype(), tensor.shape(), stream.device()));
      bytes_ += padded(tensor.bytes());
    }
    batch_ = Batch(std::move(features));
  }

  const Batch& batch() const { return batch_; }

  void upload(const Batch& batch) {
    Slot* slot = stream_.device().is_cuda() ? &next_slot() : nullptr;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < batch.features().size(); ++i) {
      const Tensor& from = batch.features()[i].second;
      const Tensor& to = batch_.features()[i].second;
      if (slot == nullptr || !from.device().is_cpu()) {
        copy(to, from, stream_);
        continue;
      }
      char* staged = static_cast<char*>(slot->memory.data()) + offset;
      std::memcpy(staged, from.raw(), from.bytes());
      stream_.copy(to.raw(), staged, from.bytes());
      offset += padded(from.bytes());
    }
    if (slot != nullptr) slot->copied.record(stream_);
  }

 private:
  struct Slot {
    Buffer memory;
    Event copied;
  };
  static constexpr std::size_t kSlots = 4;
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  Slot& next_slot() {
    std::optional<Slot>& slot = slots_[next_];
    next_ = (next_ + 1) % kSlots;
    if (slot) {
      slot->copied.synchronize();
    } else {
      slot.emplace(Slot{Buffer::allocate(stream_.device(), bytes_, MemoryKind::pinned), Event(stream_)});
    }
    return *slot;
  }

  Stream stream_;
  std::vector<Buffer> storage_;
  Batch batch_;
  std::size_t bytes_ = 0;
  std::array<std::optional<Slot>, kSlots> slots_;
  std::size_t next_ = 0;
};

// The device scalars among a step's logs, in order.
std::vector<Tensor> device_scalars(const Logs& logs) {
  std::vector<Tensor> scalars;
  for (const LogValue& value : logs.values()) {
    if (const nn::Var* scalar = value.scalar()) scalars.push_back(scalar->value());
  }
  return scalars;
}

// `logs` with its device scalars replaced by the row they were sent in.
Logs sent(Logs logs, const std::shared_ptr<const LogRow>& row) {
  std::size_t column = 0;
  for (LogValue& value : logs.values()) {
    if (value.scalar() != nullptr) value = LogValue(row, column++);
  }
  return logs;
}

void check_device(const State& state, const Batch& batch) {
  if (batch.residence() && batch.residence()->device() != state.device()) {
    throw Error(ErrorCode::device_mismatch,
                fmt::format("the batch lies on {}, the state on {}", to_string(batch.residence()->device()),
                            to_string(state.device())));
  }
}

}  // namespace

// One recording: of a state, at fixed addresses, and of batches of one shape.
struct StepEngine::Recording {
  std::weak_ptr<const void> state;
  std::shared_ptr<Residence> residence;  // null: batches come from the host
  std::int64_t rows = 0;
  std::optional<Inputs> inputs;
  std::vector<Buffer> gathered;
  Logs logs;  // as the function returned them: the scalars' memory lives as long as the recording
  std::shared_ptr<LogRing> ring;
  std::optional<Graph> graph;

  bool matches(const State& s, const Batch& batch) const {
    if (state.lock() != s.identity() || batch.residence() != residence) return false;
    return residence ? batch.size() == rows : same_features(batch.features(), inputs->batch().features());
  }
};

StepEngine::StepEngine(Mode mode) : mode_(mode) {}

StepEngine::~StepEngine() = default;

StepEngine::Recording& StepEngine::recording_for(const State& state, const Batch& batch, const Body& body) {
  for (const auto& recording : recordings_) {
    if (recording->matches(state, batch)) return *recording;
  }
  std::erase_if(recordings_, [](const auto& recording) { return recording->state.expired(); });

  const Stream& stream = state.stream();
  auto recording = std::make_unique<Recording>();
  recording->state = state.identity();
  recording->residence = batch.residence();
  recording->rows = batch.size();
  if (!batch.residence()) recording->inputs.emplace(batch, stream);
  recording->graph = Graph::record(stream, [&] {
    recording->logs = body(batch.residence() ? batch.residence()->gather(recording->rows, stream, recording->gathered)
                                             : recording->inputs->batch());
    const std::vector<Tensor> scalars = device_scalars(recording->logs);
    if (scalars.empty()) return;
    recording->ring = LogRing::create(scalars.size(), stream);
    recording->ring->publish(scalars);
  });
  recordings_.push_back(std::move(recording));
  return *recordings_.back();
}

Logs StepEngine::run_eagerly(const State& state, const Batch& batch, const Body& body) {
  const Stream& stream = state.stream();
  std::optional<Inputs> inputs;
  std::vector<Buffer> gathered;
  Logs logs;
  if (batch.residence()) {
    batch.residence()->seek(batch.position(), batch.size(), stream);
    logs = body(batch.residence()->gather(batch.size(), stream, gathered));
  } else {
    inputs.emplace(batch, stream);
    inputs->upload(batch);
    logs = body(inputs->batch());
  }
  const std::vector<Tensor> scalars = device_scalars(logs);
  if (scalars.empty()) return logs;
  if (!eager_ring_ || eager_ring_->columns() != scalars.size() || eager_ring_->stream() != stream) {
    eager_ring_ = LogRing::create(scalars.size(), stream);
  }
  // Let go of while it is written: after an error the ring's count of rows would be wrong.
  const auto ring = std::exchange(eager_ring_, nullptr);
  const auto row = ring->expect();
  ring->publish(scalars);
  eager_ring_ = ring;
  return sent(std::move(logs), row);
}

Logs StepEngine::operator()(const State& state, const Batch& batch, const Body& body) {
  check_device(state, batch);
  if (mode_ == Mode::eager) return run_eagerly(state, batch, body);
  Recording& recording = recording_for(state, batch, body);
  const Stream& stream = state.stream();
  if (recording.residence) {
    recording.residence->seek(batch.position(), recording.rows, stream);
  } else {
    recording.inputs->upload(batch);
  }
  const auto row = recording.ring ? recording.ring->expect() : nullptr;
  recording.graph->replay(stream);
  return sent(recording.logs, row);
}

}  // namespace giro::detail
