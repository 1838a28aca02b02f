// Evaluates the layers that layers_test.py asks for, one line of JSON each, with the given leaves.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/transformer.h>

#include "tests/kernels/written.h"

namespace giro {
namespace {

using nlohmann::json;

// By their text in docs/pytorch.md.
#define GIRO_LAYER(...) \
  { #__VA_ARGS__, __VA_ARGS__ }
const std::map<std::string, nn::Layer> kLayers{
    GIRO_LAYER(nn::dense(10)),
    GIRO_LAYER(nn::sequential(nn::flatten(), nn::dense(10))),
    GIRO_LAYER(nn::conv(64, {3, 3}, {.strides = {2, 2}, .padding = 1})),
    GIRO_LAYER(nn::conv(64, {3, 4})),
    GIRO_LAYER(nn::max_pool({3, 3}, {2, 2}, 1)),
    GIRO_LAYER(nn::avg_pool({3, 3}, {2, 2}, 1)),
    GIRO_LAYER(nn::batch_norm({.momentum = 0.9})),
    GIRO_LAYER(nn::layer_norm()),
    GIRO_LAYER(nn::group_norm(8)),
    GIRO_LAYER(nn::embedding(1000, 64)),
    GIRO_LAYER(nn::lstm(64)),
    GIRO_LAYER(nn::gru(64)),
    GIRO_LAYER(nn::multi_head_attention({.heads = 4})),
    GIRO_LAYER(nn::lambda([](const nn::Var& x) { return gelu_erf(x); })),
};

test::Array array_of(const json& of) {
  return {of["dtype"] == "i32" ? DType::i32 : DType::f32, Shape(of["shape"].get<std::vector<std::int64_t>>()),
          of["values"].get<std::vector<double>>()};
}

std::string evaluated(const json& of, const Stream& stream) {
  test::Storage storage(stream);
  nn::ScopeValues values{.stream = stream};
  for (const auto& [path, array] : of["leaves"].items()) {
    auto& kind = path.starts_with("batch_stats/") ? values.variables : values.params;
    kind.emplace(path, nn::Var(storage.upload(array_of(array)), stream));
  }
  const nn::Var x(storage.upload(array_of(of["x"])), stream);
  return test::written(kLayers.at(of["layer"])(nn::Params(values), x).value(), stream);
}

}  // namespace
}  // namespace giro

int main() {
  const giro::Stream stream(giro::Device::cpu());
  for (const auto& [text, layer] : giro::kLayers) fmt::print("{}\n", nlohmann::json(text).dump());
  fmt::print("\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{}\n", giro::evaluated(nlohmann::json::parse(line), stream));
    std::fflush(stdout);
  }
}
