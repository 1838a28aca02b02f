#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/distributed/world.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/tensor.h>

namespace giro::test {

// The world of this program.
World& world();
// The device for the tests: the CPU, or with GIRO_TEST_DEVICE=cuda this rank's GPU.
Device test_device(const World& of = world());

// distributed_ranks train DIR [NAME=VALUE...]: a small training run with checkpoints, in which one rank can fail.
// Returns the exit code. Errors: those of World, Dataset::partition and loop; invalid_argument (an unknown name).
int train(const std::vector<std::string>& arguments);

// A loop whose second step logs an entry more on rank 1. Error(communication).
void misuse();

// A tensor with its own memory. Its elements are set and read as doubles, which represent every value in the tests.
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

// The value after rounding to the dtype.
double rounded(DType dtype, double value);

}  // namespace giro::test
