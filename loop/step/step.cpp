#include <giro/loop/step/step.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/graph.h>

namespace giro::detail {
namespace {

constexpr std::int64_t kMostWaiting = LogRing::kCapacity / 2;  // steps

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
    batch_ = Batch(std::move(features), stream_);
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

// The device scalars among a step's logs, in order. Error(shape_mismatch) for an array that is no output.
std::vector<Tensor> device_scalars(const Logs& logs) {
  std::vector<Tensor> scalars;
  for (const Logs::Entry& entry : logs.entries()) {
    const nn::Var* var = entry.value.scalar();
    if (var == nullptr) continue;
    if (entry.value.is_scalar()) {
      scalars.push_back(var->value());
    } else if (entry.collection != "outputs") {
      throw Error(ErrorCode::shape_mismatch, fmt::format("log entry '{}.{}' is {}, expected a scalar", entry.collection,
                                                         entry.name, to_string(var->value())));
    }
  }
  return scalars;
}

bool has_arrays(const Logs& logs) {
  return std::any_of(logs.values().begin(), logs.values().end(),
                     [](const LogValue& value) { return !value.is_scalar(); });
}

// `logs` with its device scalars replaced by the row they were sent in, and its arrays by copies that are on their way
// behind the work so far.
Logs sent(Logs logs, const std::shared_ptr<const LogRow>& row, const Stream& stream) {
  std::size_t column = 0;
  for (LogValue& value : logs.values()) {
    const nn::Var* var = value.scalar();
    if (var == nullptr) continue;
    value = value.is_scalar() ? LogValue(row, column++) : LogValue(OutputArray::copy_of(var->value(), stream));
  }
  return logs;
}

void check_device(const State& state, const Batch& batch) {
  const auto check = [&](Device device) {
    if (device != state.device()) {
      throw Error(ErrorCode::device_mismatch,
                  fmt::format("the batch lies on {}, the state on {}", to_string(device), to_string(state.device())));
    }
  };
  if (batch.residence()) check(batch.residence()->device());
  for (const auto& [name, tensor] : batch.features()) {
    if (tensor.device().is_cuda()) check(tensor.device());
  }
}

}  // namespace

// A step of one state, at fixed addresses, for batches of one shape, one set of broadcasts' names and one value of the
// statics. Eager steps have no graph.
struct StepEngine::Variant {
  std::weak_ptr<const void> state;
  bool resident = false;  // else batches come from the host, through `inputs`
  std::weak_ptr<Residence> residence;
  std::int64_t rows = 0;
  std::optional<Inputs> inputs;
  std::optional<Inputs> broadcasts;
  std::shared_ptr<const void> statics;
  Stream stream;
  std::vector<Buffer> gathered;
  Logs logs;  // as the function returned them: the scalars' memory lives as long as the recording
  std::shared_ptr<LogRing> ring;
  std::optional<Graph> graph;

  explicit Variant(const Call& call)
      : state(call.state.identity()),
        resident(call.batch.residence() != nullptr),
        residence(call.batch.residence()),
        rows(call.batch.size()),
        statics(call.statics.copy(call.statics.value)),
        stream(call.state.stream()) {
    if (!resident) inputs.emplace(call.batch, stream);
    if (!call.broadcasts.empty()) broadcasts.emplace(call.broadcasts.values(), stream);
  }

  bool matches(const Call& call) const {
    if (state.lock() != call.state.identity() || resident != (call.batch.residence() != nullptr)) return false;
    if (residence.lock() != call.batch.residence()) return false;
    if (broadcasts.has_value() == call.broadcasts.empty()) return false;
    if (broadcasts && !same_features(call.broadcasts.values().features(), broadcasts->batch().features())) return false;
    if (!call.statics.equal(statics.get(), call.statics.value)) return false;
    return resident ? call.batch.size() == rows : same_features(call.batch.features(), inputs->batch().features());
  }
  bool expired() const { return state.expired() || (resident && residence.expired()); }

  // Runs the body on what lies on the device.
  void run(const Body& body) {
    gathered.clear();
    const Batch batch = resident ? residence.lock()->gather(rows, stream, gathered) : inputs->batch();
    logs = body(batch, broadcasts ? Broadcasts(broadcasts->batch()) : Broadcasts());
    const std::vector<Tensor> scalars = device_scalars(logs);
    if (ring == nullptr || ring->columns() != scalars.size()) {
      ring = scalars.empty() ? nullptr : LogRing::create(scalars.size(), stream);
    }
  }
  // Sends what it logged.
  void publish() const {
    if (ring) ring->publish(device_scalars(logs));
  }
};

StepEngine::StepEngine(Mode mode) : mode_(mode) {}

StepEngine::~StepEngine() = default;

StepEngine::Variant& StepEngine::variant_for(const Call& call, const Body& body) {
  for (const auto& variant : variants_) {
    if (variant->matches(call)) return *variant;
  }
  std::erase_if(variants_, [](const auto& variant) { return variant->expired(); });
  auto variant = std::make_unique<Variant>(call);
  if (mode_ == Mode::recorded) {
    variant->graph = Graph::record(variant->stream, [&] {
      variant->run(body);
      variant->publish();
    });
  }
  variants_.push_back(std::move(variant));
  return *variants_.back();
}

// After an error nothing is known of how far the device has come.
void StepEngine::forget(const Variant* variant) {
  const auto found =
      std::find_if(variants_.begin(), variants_.end(), [&](const auto& v) { return v.get() == variant; });
  if (found == variants_.end()) return;
  if (const auto residence = variant->residence.lock()) residence->forget_position();
  if (waiting_ == variant) {
    waiting_ = nullptr;
    replays_ = 0;
  }
  variants_.erase(found);
}

Logs StepEngine::run(Variant& variant, const Call& call, const Body& body) {
  if (variant.broadcasts) variant.broadcasts->upload(call.broadcasts.values());
  if (variant.resident) {
    call.batch.residence()->seek(call.batch.position(), variant.rows, variant.stream);
  } else {
    variant.inputs->upload(call.batch);
  }
  if (!variant.graph) variant.run(body);
  const auto row = variant.ring ? variant.ring->expect() : nullptr;
  if (!variant.graph) {
    variant.publish();
    return sent(std::move(variant.logs), row, variant.stream);
  }
  waiting_ = &variant;
  replays_ += 1;
  position_ = call.batch.position() + variant.rows;
  // The next step would overwrite what this one was given, or gives; and a ring's row is read before it is written
  // again.
  if (!variant.resident || variant.broadcasts || has_arrays(variant.logs) || replays_ >= kMostWaiting) launch();
  return sent(variant.logs, row, variant.stream);
}

Logs StepEngine::enqueue(const Call& call, const Body& body) {
  check_device(call.state, call.batch);
  const bool continues = waiting_ != nullptr && waiting_->matches(call) && call.batch.position() == position_;
  if (!continues) launch();
  Variant& variant = continues ? *waiting_ : variant_for(call, body);
  try {
    return run(variant, call, body);
  } catch (...) {
    forget(&variant);
    throw;
  }
}

void StepEngine::launch() {
  if (waiting_ == nullptr) return;
  Variant& variant = *std::exchange(waiting_, nullptr);
  const std::int64_t replays = std::exchange(replays_, 0);
  try {
    variant.graph->replay(variant.stream, replays);
  } catch (...) {
    forget(&variant);
    throw;
  }
}

}  // namespace giro::detail
