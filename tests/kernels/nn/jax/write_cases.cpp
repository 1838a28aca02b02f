// Writes each case as one line of JSON, with giro's results on a device with all rules, and their gradients:
// write_cases DEVICE [SHARE]. cases_test.py reads them. SHARE, 1 or 2: every other case, from this one on.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/program/graph.h>

#include "kernels/nn/call_order.h"
#include "kernels/nn/declared_leaves.h"
#include "kernels/rules/record.h"
#include "tests/kernels/nn/jax/cases.h"
#include "tests/kernels/precisions.h"
#include "tests/kernels/written.h"

namespace giro::nn {
namespace {

using Texts = std::vector<std::string>;

// The input values of a case, by name, and the gradients with respect to them.
struct Leaves {
  const Stream& stream;
  test::Storage storage{stream};
  Texts names = {};
  std::vector<Tensor> gradients = {};

  Var operator()(const std::string& name, const test::Array& array) {
    const Tensor value = storage.upload(array);
    if (!is_floating(array.dtype)) return Var(value, stream);
    names.push_back(name);
    gradients.push_back(storage.zeros(array.dtype, array.shape));
    return Var::parameter(value, gradients.back(), stream);
  }
};

std::vector<DeclaredLeaf> leaves_of(const Case& of, const std::vector<test::Array>& inputs, const Stream& stream,
                                    DType dtype) {
  std::vector<LeafSpec> specs;
  for (const test::Array& input : inputs) specs.push_back({"", input.dtype, input.shape});
  const auto call = [&](const Params& params, const auto& values) {
    Vars in;
    for (const auto& [name, value] : values) in.emplace_back(value, stream);
    of.layer(params, in);
  };
  return declared_leaves(call, specs, {.stream = stream, .mode = Mode::train, .dtype = dtype});
}

void write(const Case& of, DType dtype, const Stream& stream) {
  test::Random random;
  Leaves leaves{stream};
  std::vector<test::Array> arrays;
  Vars inputs;
  Texts written_inputs, parameters, variables;
  for (const Input& input : of.inputs) {
    arrays.push_back(is_floating(input.dtype) ? random.uniform(input.shape, input.low, input.high, dtype)
                                              : random.integers(input.shape, static_cast<std::int64_t>(input.low),
                                                                static_cast<std::int64_t>(input.high), input.dtype));
    inputs.push_back(leaves(input.name, arrays.back()));
    written_inputs.push_back(test::member(input.name, test::written(arrays.back())));
  }
  ScopeValues values{.stream = stream, .mode = Mode::train};
  for (const DeclaredLeaf& leaf : leaves_of(of, arrays, stream, dtype)) {
    if (leaf.collection == "params") {
      const test::Array array = random.uniform(leaf.shape, -0.8, 0.8, dtype);
      values.params.emplace(leaf.name, leaves(leaf.name, array));
      parameters.push_back(test::member(leaf.name, test::written(array)));
    } else {
      const std::vector<float> initial = leaf.initializer(leaf.shape.count(), leaf.fans, Rng());
      const test::Array array{leaf.dtype, leaf.shape, {initial.begin(), initial.end()}};
      const std::string path = leaf.collection + "/" + leaf.name;
      values.variables.emplace(path, Var(leaves.storage.upload(array), stream));
      variables.push_back(test::member(path, test::written(array)));
    }
  }

  const Params params(values);
  Vars outputs;
  Texts weights;
  const Graph graph = rules::record(stream, [&] {
    outputs = of.layer(params, inputs);
    Var loss;
    for (const Var& y : outputs) {
      const test::Array drawn = random.uniform(y.shape(), 0.5, 1.5, y.dtype());
      weights.push_back(y.requires_grad() ? test::written(drawn) : "null");
      if (!y.requires_grad()) continue;
      const HostArray floats(std::vector<float>(drawn.values.begin(), drawn.values.end()), drawn.shape);
      const Var term = sum(y * cast(constant(floats, stream), y.dtype()));
      loss = loss.value() ? loss + term : term;
    }
    loss.value() ? backward(loss) : leaves.names.clear();
  });
  graph.replay(stream);
  Texts results, changed, gradients;
  for (const Var& output : outputs) results.push_back(test::written(output.value(), stream));
  for (const auto& [path, value] : params.written()) {
    changed.push_back(test::member(path, test::written(value.value(), stream)));
  }
  for (std::size_t i = 0; i < leaves.names.size(); ++i) {
    gradients.push_back(test::member(leaves.names[i], test::written(leaves.gradients[i], stream)));
  }
  fmt::print(R"({{"name": "{}", "dtype": "{}", "inputs": {{{}}}, "parameters": {{{}}}, "variables": {{{}}}, )"
             R"("outputs": [{}], "written": {{{}}}, "weights": [{}], "gradients": {{{}}}}})"
             "\n",
             of.name, name_of(dtype), fmt::join(written_inputs, ", "), fmt::join(parameters, ", "),
             fmt::join(variables, ", "), fmt::join(results, ", "), fmt::join(changed, ", "), fmt::join(weights, ", "),
             fmt::join(gradients, ", "));
}

}  // namespace
}  // namespace giro::nn

int main(int argc, char** argv) {
  const int share = argc == 3 ? std::atoi(argv[2]) : 0;
  if (argc < 2 || argc > 3 || (argc == 3 && share != 1 && share != 2)) return 2;
  const giro::Stream stream(giro::parse_device(argv[1], giro::discover_devices()));
  int number = 0;
  const bool has_bf16 = giro::test::computes_in(giro::Precision::bf16, stream.device());
  for (const auto& cases : {giro::nn::op_cases(), giro::nn::loss_cases(), giro::nn::layer_cases()}) {
    for (const giro::nn::Case& of : cases) {
      const bool is_left_out = share != 0 && number++ % 2 != share - 1;
      if (is_left_out) continue;
      giro::nn::write(of, giro::DType::f32, stream);
      if (of.has_bf16 && has_bf16) giro::nn::write(of, giro::DType::bf16, stream);
    }
  }
}
