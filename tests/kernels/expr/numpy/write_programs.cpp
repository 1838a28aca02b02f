// Writes random programs as JSON, one per line, with giro's results and gradients on a device with all rules:
// write_programs FIRST_SEED COUNT DEVICE. programs_test.py reads them.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/expr/random_program.h"
#include "tests/kernels/written.h"

namespace giro::nn {
namespace {

void write(unsigned seed, const Stream& stream) {
  const test::RandomProgram program(seed);
  test::Storage storage(stream);
  std::vector<Var> parameters;
  std::vector<Tensor> gradients;
  std::vector<std::string> inputs;
  test::RandomProgram::Computed computed;
  for (const test::Array& input : program.inputs) {
    gradients.push_back(storage.zeros(input.dtype, input.shape));
    parameters.push_back(Var::parameter(storage.upload(input), gradients.back(), stream));
    inputs.push_back(test::written(input));
  }
  const Graph graph = rules::record(stream, [&] { computed = program.with_gradients(parameters); });
  graph.replay(stream);
  std::vector<std::string> results, firsts, last;
  for (const Var& result : computed.results) results.push_back(test::written(result.value(), stream));
  for (const Var& first : computed.first_gradients) firsts.push_back(test::written(first.value(), stream));
  for (const Tensor& gradient : gradients) {
    if (computed.order > 0) last.push_back(test::written(gradient, stream));
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
  const unsigned first = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const unsigned count = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  const giro::Stream stream(giro::parse_device(argv[3], giro::discover_devices()));
  for (unsigned seed = first; seed < first + count; ++seed) giro::nn::write(seed, stream);
}
