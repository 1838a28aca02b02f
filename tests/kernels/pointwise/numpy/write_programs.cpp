// Writes random programs as JSON, one per line, with giro's results on a device with all rules, and the gradients:
// write_programs FIRST_SEED COUNT DEVICE. programs_test.py reads them.

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/graph.h>
#include <giro/runtime/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/pointwise/random_program.h"

namespace giro::nn {
namespace {

// NaN and infinities as Python's json reads them.
std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{:.17g}", value);
}

std::string text_of(DType dtype, const Shape& shape, const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(text_of(value));
  return fmt::format(R"({{"dtype": "{}", "shape": [{}], "values": [{}]}})", name_of(dtype), fmt::join(shape, ", "),
                     fmt::join(texts, ", "));
}

std::string text_of(const Tensor& tensor, const Stream& stream) {
  test::Bytes bytes(tensor.bytes());
  stream.copy(bytes.data(), tensor.raw(), bytes.size());
  stream.synchronize();
  return text_of(tensor.dtype(), tensor.shape(), test::decode(tensor.dtype(), bytes));
}

Tensor allocated(std::vector<Buffer>& storage, DType dtype, const Shape& shape, const Stream& stream) {
  storage.push_back(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)));
  stream.fill(storage.back().data(), 0, static_cast<std::size_t>(shape.count()) * size_of(dtype));
  return Tensor(storage.back().data(), dtype, shape, stream.device());
}

void write(unsigned seed, const Stream& stream) {
  const test::RandomProgram program(seed);
  std::vector<Buffer> storage;
  std::vector<Var> parameters;
  std::vector<Tensor> gradients;
  std::vector<std::string> inputs;
  test::RandomProgram::Computed computed;
  for (const test::Array& input : program.inputs) {
    const Tensor value = allocated(storage, input.dtype, input.shape, stream);
    const test::Bytes bytes = test::encode(input);
    stream.copy(value.raw(), bytes.data(), bytes.size());
    gradients.push_back(allocated(storage, input.dtype, input.shape, stream));
    parameters.push_back(Var::parameter(value, gradients.back(), stream));
    inputs.push_back(text_of(input.dtype, input.shape, input.values));
  }
  const Graph graph = rules::record(stream, [&] { computed = program.with_gradients(parameters); });
  graph.replay(stream);
  std::vector<std::string> results, firsts, last;
  for (const Var& result : computed.results) results.push_back(text_of(result.value(), stream));
  for (const Var& first : computed.first_gradients) firsts.push_back(text_of(first.value(), stream));
  for (const Tensor& gradient : gradients) {
    if (computed.order > 0) last.push_back(text_of(gradient, stream));
  }
  if (computed.order == 1) std::swap(firsts, last);
  fmt::print(R"({{"seed": {}, "inputs": [{}], "ops": [{}], "which": [{}], )"
             R"("results": [{}], "first": [{}], "second": [{}]}})"
             "\n",
             seed, fmt::join(inputs, ", "), fmt::join(computed.values.ops, ", "),
             fmt::join(computed.values.results, ", "), fmt::join(results, ", "), fmt::join(firsts, ", "),
             fmt::join(last, ", "));
}

}  // namespace
}  // namespace giro::nn

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const giro::Stream stream(giro::parse_device(argv[3], giro::discover_devices()));
  const unsigned first = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const unsigned count = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  for (unsigned seed = first; seed < first + count; ++seed) giro::nn::write(seed, stream);
}
