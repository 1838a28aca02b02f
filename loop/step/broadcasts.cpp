#include <giro/loop/step/broadcasts.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/throw_error.h"

namespace giro {

Broadcasts::Broadcasts(std::initializer_list<std::pair<std::string, Number>> values)
    : memory_(std::make_shared<std::vector<std::int64_t>>(values.size())) {
  Batch::Features features;
  for (const auto& [name, number] : values) {
    const DType dtype = number.is_integer ? DType::i64 : DType::f32;
    features.emplace_back(name, Tensor(memory_->data() + features.size(), dtype, {}, Device::cpu()));
    write(features.size() - 1, number);
  }
  values_ = Batch(std::move(features), memory_);
}

Broadcasts::Broadcasts(const Elapsed& elapsed)
    : Broadcasts({{"steps", elapsed.steps}, {"samples", elapsed.samples}, {"time", elapsed.time()}}) {}

nn::Var Broadcasts::operator[](const std::string& name) const {
  const Batch::Features& known = values_.features();
  if (std::ranges::find(known, name, &Batch::Features::value_type::first) != known.end()) return values_[name];
  std::vector<std::string> names;
  for (const auto& [of_value, tensor] : known) names.push_back(of_value);
  throw_error(ErrorCode::not_found, "no broadcast '{}' in the call of the step, which has {}", name,
              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void Broadcasts::set(const Elapsed& elapsed) {
  write(0, elapsed.steps);
  write(1, elapsed.samples);
  write(2, elapsed.time());
}

void Broadcasts::write(std::size_t value, const Number& number) {
  if (number.is_integer) {
    (*memory_)[value] = number.integer;
  } else {
    std::memcpy(memory_->data() + value, &number.number, sizeof number.number);
  }
}

}  // namespace giro
