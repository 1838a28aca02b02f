#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <giro/kernels/nn/partitioner.h>

namespace giro::test {

// One of several ranks. The others do not exist: it only records its calls.
struct FakePartitioner : Partitioner {
  FakePartitioner(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  void replicate(const State&) const override {}
  std::unique_ptr<GradientReduction> reduce(const Collection& grads, const DeviceContext&) const override {
    struct Reduction : GradientReduction {
      Reduction(const Collection& g, std::vector<std::string>& to) : grads(g), calls(to) {}
      void ready(std::size_t leaf) override { calls.push_back(grads.leaves()[leaf].path); }
      void finish() override { calls.push_back("finish"); }
      const Collection& grads;
      std::vector<std::string>& calls;
    };
    return std::make_unique<Reduction>(grads, calls);
  }
  void mean(const Tensor&, const Stream&) const override { calls.push_back("mean"); }
  void all_reduce_max(std::span<double> values) const override { questions.emplace_back(values.begin(), values.end()); }
  std::string broadcast(const std::string& text) const override { return text; }
  void expect_same(const std::string&, const std::string&) const override {}
  void set_failed() const noexcept override {}

  mutable std::vector<std::string> calls;
  mutable std::vector<std::vector<double>> questions;  // the values of each all_reduce_max() call

 private:
  int rank_, size_;
};

}  // namespace giro::test
