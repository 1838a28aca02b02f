#pragma once

#include <cstdint>
#include <utility>

#include <giro/kernels/nn/layer.h>

#include "runtime/throw_error.h"

namespace giro::nn {

template <class F>
struct Builtin : F {
  using BuiltinLayer = void;
};

// A function as a layer of giro's own, whose errors name the line that called it (Layer::apply).
template <class F>
Layer builtin(const char* name, F f) {
  return Layer(name, Builtin<F>{std::move(f)});
}

inline std::int64_t checked_features(const char* layer, std::int64_t features) {
  if (features >= 1) return features;
  throw_invalid("{}: {} features, expected at least 1", layer, features);
}

}  // namespace giro::nn
