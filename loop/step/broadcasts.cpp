#include <giro/loop/step/broadcasts.h>

#include <utility>

namespace giro {

Broadcasts::Broadcasts(std::initializer_list<std::pair<std::string, double>> values)
    : memory_(std::make_shared<std::vector<float>>()) {
  memory_->reserve(values.size());
  Batch::Features features;
  for (const auto& [name, value] : values) {
    memory_->push_back(static_cast<float>(value));
    features.emplace_back(name, Tensor(&memory_->back(), DType::f32, {}, Device::cpu()));
  }
  values_ = Batch(std::move(features), memory_);
}

Broadcasts::Broadcasts(const Elapsed& elapsed) : Broadcasts({{"steps", 0}, {"samples", 0}, {"time", 0}}) {
  set(elapsed);
}

Broadcasts::Broadcasts(Batch values) : values_(std::move(values)) {}

bool Broadcasts::empty() const noexcept { return values_.features().empty(); }

void Broadcasts::set(const Elapsed& elapsed) {
  *memory_ = {static_cast<float>(elapsed.steps), static_cast<float>(elapsed.samples),
              static_cast<float>(elapsed.time())};
}

}  // namespace giro
