// Writes random chains of views of two leaves as JSON, one per line, with what giro makes of them, eager and recorded:
// write_chains FIRST_SEED COUNT DEVICE. In between, leaves are set. chains_test.py reads them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/slice.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "kernels/rules/record.h"

namespace giro::nn {
namespace {

constexpr std::int64_t kMostElements = 300;
constexpr const char* kLeaves[] = {"data/a", "data/b"};

// One run of a chain: the same for the same seed.
class Chain {
 public:
  Chain(unsigned seed, const State& state) : random_(seed), state_(state) {
    for (int i = 0; i < 2; ++i) values_.push_back(Var::parameter(leaf(i), state.at(fmt::format("grads/{}", i)), on()));
    const int length = at_most(14) + 2;
    for (int i = 0; i < length; ++i) add();
    // Small whole numbers, so that sums are exact.
    Var loss;
    std::int64_t weight = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      results.push_back(i == 0 ? values_.size() - 1
                               : static_cast<std::size_t>(at_most(static_cast<int>(values_.size()))));
      const Var flat = values_[results[i]].reshape({values_[results[i]].shape().count()});
      const Var weights = cast(remainder(arange(flat.shape()[0], on()) + weight, 7) + 1, DType::f32);
      const Var term = sum(flat * weights);
      loss = i == 0 ? term : loss + term;
      weight += flat.shape()[0];
      outputs.push_back(1.0 * flat);
    }
    if (loss.requires_grad()) backward(loss);
  }

  std::vector<std::string> ops;
  std::vector<std::size_t> results;  // numbers of values
  std::vector<Var> outputs;          // theirs

 private:
  const Stream& on() const { return state_.stream(); }
  Tensor leaf(int i) const { return state_.at(kLeaves[i]); }
  int at_most(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  std::size_t any() {
    // Mostly the latest, so that chains are long.
    const int last = static_cast<int>(values_.size());
    return static_cast<std::size_t>(at_most(3) > 0 ? last - 1 - at_most(std::min(last, 3)) : at_most(last));
  }
  template <class... Args>
  void push(const Var& value, fmt::format_string<Args...> format, Args&&... args) {
    values_.push_back(value);
    ops.push_back("[" + fmt::format(format, std::forward<Args>(args)...) + "]");
  }

  void add() {
    const std::size_t k = any();
    const Var x = values_[k];
    const Shape& shape = x.shape();
    const int rank = static_cast<int>(shape.rank());
    const int axis = rank > 0 ? at_most(rank) : 0;
    switch (rank > 0 ? at_most(10) : 9) {
      case 0:
      case 1: {  // a slice or a part
        const std::int64_t size = shape[axis], begin = at_most(static_cast<int>(size));
        const std::int64_t end = begin + 1 + at_most(static_cast<int>(size - begin));
        const std::int64_t step = at_most(2) == 0 ? 1 : 1 + at_most(3);
        return push(slice(x, {.axis = axis, .begin = begin, .end = end, .step = step}),
                    R"("slice", {}, {}, {}, {}, {})", k, axis, begin, end, step);
      }
      case 2: {  // an axis of its factors, or two axes joined
        std::vector<std::int64_t> sizes(shape.begin(), shape.end());
        const auto at = static_cast<std::size_t>(axis);
        if (axis + 1 < rank && at_most(2) == 0) {
          sizes[at] *= sizes[at + 1];
          sizes.erase(sizes.begin() + axis + 1);
        } else if (rank < 5) {
          const std::int64_t factor = sizes[at] % 3 == 0 ? 3 : sizes[at] % 2 == 0 ? 2 : 1;
          sizes[at] /= factor;
          sizes.insert(sizes.begin() + axis + at_most(2), factor);
        }
        return push(x.reshape(Shape(sizes)), R"("reshape", {}, [{}])", k, fmt::join(sizes, ", "));
      }
      case 3: {
        std::vector<int> order(shape.rank());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        return push(transpose(x, order), R"("transpose", {}, [{}])", k, fmt::join(order, ", "));
      }
      case 4:
        return push(flip(x, {axis}), R"("flip", {}, {})", k, axis);
      case 5: {  // with itself, or with what has its shape
        std::size_t other = any();
        if (values_[other].shape() != shape) other = k;
        if (shape.count() * 2 > kMostElements) return;
        return push(concatenate({x, values_[other]}, axis), R"("concatenate", {}, {}, {})", k, other, axis);
      }
      case 6: {
        if (shape.count() * 2 > kMostElements || rank > 4) return;
        return push(stack({x, x}, axis), R"("stack", {}, {})", k, axis);
      }
      case 7: {
        const std::int64_t before = at_most(2), after = at_most(2);
        if (shape.count() * 3 > kMostElements) return;
        return push(pad(x, {.axis = axis, .before = before, .after = after}), R"("pad", {}, {}, {}, {})", k, axis,
                    before, after);
      }
      case 8: {
        if (shape.count() * 2 > kMostElements || rank > 4) return;
        std::vector<std::int64_t> sizes(shape.begin(), shape.end());
        sizes.insert(sizes.begin(), 2);
        return push(broadcast_to(x, Shape(sizes)), R"("broadcast", {}, [{}])", k, fmt::join(sizes, ", "));
      }
      default: {  // a leaf is set to a part of a value
        const int i = at_most(2);
        const Shape of_leaf = leaf(i).shape();
        if (shape.count() < of_leaf.count()) return;
        const Var part = slice(x.reshape({shape.count()}), {.end = of_leaf.count()}).reshape(of_leaf);
        set(state_, kLeaves[i], part);
        return push(Var(leaf(i), on()), R"("set", {}, {})", k, i);
      }
    }
  }

  std::mt19937 random_;
  const State& state_;
  std::vector<Var> values_;
};

std::string numbers(const Tensor& tensor, const Stream& stream) {
  return fmt::format("[{}]", fmt::join(to_host<float>(tensor, stream), ", "));
}

void write(unsigned seed, const DeviceContext& context) {
  std::string ways;
  std::vector<std::string> ops;
  std::vector<std::size_t> results;
  for (const bool recorded : {false, true}) {
    State state(context);
    const Shape a{6, 4}, b{2, 3, 5};
    state.add("data", {{"a", DType::f32, a}, {"b", DType::f32, b}});
    state.add("grads", {{"0", DType::f32, a}, {"1", DType::f32, b}});
    std::vector<float> initial(54);
    std::iota(initial.begin(), initial.end(), 1.0f);
    from_host(state.at("data/a"), std::vector(initial.begin(), initial.begin() + 24), state.stream());
    from_host(state.at("data/b"), std::vector(initial.begin() + 24, initial.end()), state.stream());
    std::vector<Var> outputs;
    const auto run = [&] {
      Chain chain(seed, state);
      ops = chain.ops;
      results = chain.results;
      outputs = chain.outputs;
    };
    if (recorded) {
      const Graph graph = rules::record(state.stream(), run);
      graph.replay(state.stream());
      state.stream().synchronize();
      std::vector<std::string> written;
      for (const Var& output : outputs) written.push_back(numbers(output.value(), state.stream()));
      ways += fmt::format(R"(, "recorded": [{}])", fmt::join(written, ", "));
    } else {
      run();
      std::vector<std::string> written;
      for (const Var& output : outputs) written.push_back(numbers(output.value(), state.stream()));
      ways += fmt::format(R"("eager": [{}])", fmt::join(written, ", "));
    }
    std::vector<std::string> leaves;
    for (const char* const path : {"data/a", "data/b", "grads/0", "grads/1"}) {
      leaves.push_back(numbers(state.at(path), state.stream()));
    }
    ways += fmt::format(R"(, "{}_leaves": [{}])", recorded ? "recorded" : "eager", fmt::join(leaves, ", "));
  }
  fmt::print(R"({{"seed": {}, "ops": [{}], "which": [{}], {}}})"
             "\n",
             seed, fmt::join(ops, ", "), fmt::join(results, ", "), ways);
}

}  // namespace
}  // namespace giro::nn

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const unsigned first = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const unsigned count = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  const giro::DeviceContext context(giro::parse_device(argv[3], giro::discover_devices()));
  for (unsigned seed = first; seed < first + count; ++seed) giro::nn::write(seed, context);
}
