#include <giro/loop/step/broadcasts.h>

#include <memory>
#include <vector>

namespace giro {

Broadcasts::Broadcasts(std::initializer_list<std::pair<std::string, double>> values) {
  const auto memory = std::make_shared<std::vector<float>>();
  memory->reserve(values.size());
  Batch::Features features;
  for (const auto& [name, value] : values) {
    memory->push_back(static_cast<float>(value));
    features.emplace_back(name, Tensor(&memory->back(), DType::f32, {}, Device::cpu()));
  }
  values_ = Batch(std::move(features), memory);
}

Broadcasts::Broadcasts(const Elapsed& elapsed)
    : Broadcasts({{"steps", static_cast<double>(elapsed.steps)},
                  {"samples", static_cast<double>(elapsed.samples)},
                  {"time", elapsed.time()}}) {}

}  // namespace giro
