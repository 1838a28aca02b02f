// Runs the convolutions and poolings that geometry_test.py asks for, one line of JSON each, with all rules, and writes
// each result and its gradients: run_geometries DEVICE.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/runtime/program/graph.h>

#include "kernels/rules/record.h"
#include "tests/kernels/written.h"

namespace giro::nn {
namespace {

using nlohmann::json;
using Pair = std::array<std::int64_t, 2>;

Pair pair(const json& of) { return {of[0], of[1]}; }

Padding padding_of(const json& padding) {
  if (padding.is_string()) return padding == "same" ? Padding::same : Padding::valid;
  if (padding.is_number()) return padding.get<std::int64_t>();
  return {pair(padding[0]), pair(padding[1])};
}

Conv2dOptions options_of(const json& of) {
  const Padding padding = padding_of(of["padding"]);
  return {.stride = pair(of["strides"]),
          .pad_before = padding.before(),
          .pad_after = padding.after(),
          .dilation = pair(of["dilation"]),
          .groups = of["groups"]};
}

Var result_of(const json& of, const std::map<std::string, Var>& in, const Stream& stream) {
  const std::string kind = of["kind"];
  const Var &x = in.at("x"), w = in.contains("w") ? in.at("w") : Var(), b = in.contains("b") ? in.at("b") : Var();
  if (kind == "conv") {
    const Layer layer =
        conv(w.shape()[0], {w.shape()[1], w.shape()[2]},
             {.strides = pair(of["strides"]), .padding = padding_of(of["padding"]), .use_bias = in.contains("b")});
    return layer(Params({{"kernel", w}, {"bias", b}}, stream), x);
  }
  if (kind == "conv2d") return conv2d(x, w, b, options_of(of));
  if (kind == "conv2d_transpose") return conv2d_transpose(x, w, b, options_of(of), pair(of["more"]));
  if (kind == "conv1d") {  // of images of one row
    const Conv2dOptions as = options_of(of);
    const auto sequence = [](const Var& a) { return a.reshape({a.shape()[0], a.shape()[2], a.shape()[3]}); };
    const Var y = conv1d(sequence(x), sequence(w), b,
                         {.stride = as.stride[1],
                          .pad_before = as.pad_before[1],
                          .pad_after = as.pad_after[1],
                          .dilation = as.dilation[1],
                          .groups = as.groups});
    return y.reshape({y.shape()[0], 1, y.shape()[1], y.shape()[2]});
  }
  const Pair window = pair(of["window"]), strides = pair(of["strides"]);
  const Padding padding = padding_of(of["padding"]);
  const Layer layer = kind == "max_pool" ? max_pool(window, strides, padding)
                                         : avg_pool(window, strides, padding, of["count_include_pad"]);
  return layer(Params({}, stream), x);
}

void run(const json& of, const Stream& stream) {
  test::Storage storage(stream);
  std::map<std::string, Var> inputs;
  std::map<std::string, Tensor> gradients;
  Tensor dy;
  for (const auto& [name, array] : of["arrays"].items()) {
    const Tensor value = storage.upload({DType::f32, Shape(array["shape"].get<std::vector<std::int64_t>>()),
                                         array["values"].get<std::vector<double>>()});
    if (name == "dy") {
      dy = value;
      continue;
    }
    gradients[name] = storage.zeros(DType::f32, value.shape());
    inputs[name] = Var::parameter(value, gradients[name], stream);
  }
  Var y;
  const Graph graph = rules::record(stream, [&] {
    y = result_of(of, inputs, stream);
    // A scalar whose gradient with respect to y is dy.
    const Var loss = Var::computed(DType::f32, {}, {y},
                                   [&](const Var&, const Var&, const std::vector<Var>&) { return Var(dy, stream); });
    backward(loss);
  });
  graph.replay(stream);
  std::vector<std::string> results{test::member("y", test::written(y.value(), stream))};
  for (const auto& [name, gradient] : gradients) {
    results.push_back(test::member("d" + name, test::written(gradient, stream)));
  }
  fmt::print("{{{}}}\n", fmt::join(results, ", "));
  std::fflush(stdout);
}

}  // namespace
}  // namespace giro::nn

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const giro::Stream stream(giro::parse_device(argv[1], giro::discover_devices()));
  for (std::string line; std::getline(std::cin, line);) giro::nn::run(nlohmann::json::parse(line), stream);
}
