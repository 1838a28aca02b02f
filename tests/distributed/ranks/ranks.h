#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/distributed/world.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/tensor.h>

namespace giro::test {

// Of this program.
World& world();
// Where its tests run: the CPU, or with GIRO_TEST_DEVICE=cuda this rank's GPU.
Device test_device(const World& of = world());

// distributed_ranks train DIR [NAME=VALUE...]: a small training run with checkpoints, of which a rank can go astray.
// The exit code. Errors: those of World, Dataset::partition and loop; invalid_argument (an unknown name).
int train(const std::vector<std::string>& arguments);

// A tensor with memory of its own, and its elements as doubles, which hold every value that the tests use.
class Elements {
 public:
  Elements(DType dtype, Shape shape, const Stream& stream);
  const Tensor& tensor() const { return tensor_; }
  void set(const std::vector<double>& values) const;
  std::vector<double> get() const;

 private:
  Stream stream_;
  Buffer buffer_;
  Tensor tensor_;
};

// What the dtype stores of a value.
double rounded(DType dtype, double value);

}  // namespace giro::test
