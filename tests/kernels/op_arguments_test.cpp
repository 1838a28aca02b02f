// What each op declares of its arguments (runtime/program/op_signature.h), beside what it does: a dimension that need
// not be whole may be permuted and split, and arguments that do not fit are errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "runtime/program/op_signature.h"
#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using detail::OpSignature;
using test::Random;
using Argument = OpSignature::Argument;
using Axis = OpSignature::Axis;
using LetterSizes = std::map<char, std::int64_t>;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kAny = 2;  // the size of the one axis that stands for any axes

// An argument on the host; without a shape, it is omitted.
struct HostArgument {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  bool is_given = false;
};

struct DeclaredOp {
  std::string name;
  const OpSignature* signature;
  LetterSizes sizes;
  std::vector<bool> given;  // which of the reads, then of the writes
  // Queues the op with these arguments, of these sizes.
  std::function<void(const Tensors& reads, const Tensors& writes, const LetterSizes& sizes, const Stream& stream)>
      queue;
  std::int64_t most = 1;  // integers are below this
  // Changes the reads to ones that the op expects.
  std::function<void(std::vector<HostArgument>& reads)> prepare = [](std::vector<HostArgument>&) {};
};

// `omitted`: the numbers of omitted arguments, first the reads and then the writes.
template <class Op>
DeclaredOp case_of(
    Op op, const LetterSizes& sizes, const std::vector<std::size_t>& omitted = {},
    const std::function<void(Op&, const LetterSizes&)>& adjust = [](Op&, const LetterSizes&) {}) {
  const OpSignature* const signature = detail::signature_of(op);
  std::vector<bool> given(signature->reads().size() + signature->writes().size(), true);
  for (const std::size_t i : omitted) given[i] = false;
  const auto queue_with = [op, adjust](const Tensors& reads, const Tensors& writes, const LetterSizes& of,
                                       const Stream& stream) {
    Op changed = op;
    std::size_t read = 0, written = 0;
    detail::for_each_tensor(changed, [&](Tensor& tensor, detail::Use use) {
      tensor = use == detail::Use::read ? reads.at(read++) : writes.at(written++);
    });
    adjust(changed, of);
    queue(std::move(changed), stream);
  };
  return {Op::kName, signature, sizes, std::move(given), queue_with};
}

std::vector<DeclaredOp> all_cases() {
  const LetterSizes dense{{'b', 4}, {'i', 3}, {'o', 5}}, product{{'m', 3}, {'k', 4}, {'n', 2}};
  const LetterSizes conv{{'n', 2}, {'h', 5}, {'w', 4}, {'g', 2}, {'c', 3},
                         {'o', 2}, {'k', 3}, {'l', 3}, {'p', 3}, {'q', 2}};
  const LetterSizes pool{{'n', 2}, {'h', 4}, {'w', 6}, {'p', 2}, {'q', 3}, {'c', 3}};
  const LetterSizes heads{{'b', 2}, {'t', 3}, {'k', 2}, {'g', 2}, {'d', 8}, {'s', 4}};
  const std::function<void(ops::Conv2d&, const LetterSizes&)> groups = [](auto& op, const LetterSizes& sizes) {
    op.options.groups = sizes.at('g');
  };
  const std::function<void(ops::Conv2dBackward&, const LetterSizes&)> groups_back =
      [](auto& op, const LetterSizes& sizes) { op.options.groups = sizes.at('g'); };
  ops::AttentionOptions attention;
  attention.scale = 0.3;
  std::vector<DeclaredOp> cases{case_of(ops::Dense{}, dense),
                                case_of(ops::Dense{}, dense, {2}),
                                case_of(ops::DenseBackward{}, dense),
                                case_of(ops::DenseBackwardAdd{}, dense),
                                case_of(ops::Conv2d{}, conv, {}, groups),
                                case_of(ops::Conv2dBackward{}, conv, {3}, groups_back),
                                case_of(ops::AvgPool{}, pool),
                                case_of(ops::AvgPoolBackward{}, pool, {1, 3}),
                                case_of(ops::MaxPool{}, pool),
                                case_of(ops::MaxPoolBackward{}, pool),
                                case_of(ops::Cumulative{}, {{'r', 4}, {'l', 3}}),
                                case_of(ops::SumRows{}, {{'r', 4}, {'c', 3}}),
                                case_of(ops::SoftmaxCrossEntropy{}, {{'r', 4}, {'c', 3}}, {2}),
                                case_of(ops::MeanCrossEntropy{}, {{'r', 4}, {'c', 3}}, {2}),
                                case_of(ops::GatherRows{.axis = 1}, {{'a', 2}, {'n', 3}, {'r', 4}}, {2}),
                                case_of(ops::ArgSort{}, {{'r', 4}, {'l', 5}, {'k', 2}}),
                                case_of(ops::ScatterAdd{}, {{'r', 3}, {'n', 4}}, {2}),
                                case_of(ops::Attention{.options = attention}, heads, {3, 4, 5}),
                                case_of(ops::AttentionBackward{.options = attention}, heads, {6, 7, 8})};
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) cases.push_back(case_of(ops::Matmul{.options = {a, b}}, product));
  }
  for (DeclaredOp& each : cases) {
    if (each.name == "softmax_cross_entropy" || each.name == "mean_cross_entropy" || each.name == "gather_rows") {
      each.most = 3;
    }
    if (each.name == "scatter_add") {  // without an order, no index occurs twice
      each.prepare = [](std::vector<HostArgument>& reads) { reads[1].values = {3, 0, 2}; };
    }
    if (each.name == "max_pool_backward") {  // windows of 2 x 2
      each.prepare = [](std::vector<HostArgument>& reads) {
        const HostArgument& x = reads[1];
        HostArgument& y = reads[2];
        const auto at = [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
          return x.values[static_cast<std::size_t>(((n * x.shape[1] + h) * x.shape[2] + w) * x.shape[3] + c)];
        };
        std::size_t i = 0;
        for (std::int64_t n = 0; n < y.shape[0]; ++n) {
          for (std::int64_t p = 0; p < y.shape[1]; ++p) {
            for (std::int64_t q = 0; q < y.shape[2]; ++q) {
              for (std::int64_t c = 0; c < y.shape[3]; ++c) {
                y.values[i++] = std::max({at(n, 2 * p, 2 * q, c), at(n, 2 * p, 2 * q + 1, c),
                                          at(n, 2 * p + 1, 2 * q, c), at(n, 2 * p + 1, 2 * q + 1, c)});
              }
            }
          }
        }
      };
    }
  }
  return cases;
}

DType dtype_of(const Argument& argument) {
  const auto allows = [&](DType dtype) {
    return std::ranges::any_of(argument.types, [&](const OpSignature::Type& type) {
      return (type.dtypes >> static_cast<unsigned>(dtype) & 1) != 0;
    });
  };
  for (const DType dtype : {DType::f32, DType::i64, DType::i32, DType::u8}) {
    if (allows(dtype)) return dtype;
  }
  return DType::boolean;
}

std::vector<std::int64_t> shape_of(const Argument& argument, const LetterSizes& sizes) {
  std::vector<std::int64_t> shape;
  for (const Axis& axis : *argument.axes) {
    std::int64_t size = axis.letters.empty() ? kAny : 1;
    for (const char letter : axis.letters) size *= sizes.at(letter);
    shape.push_back(size);
  }
  return shape;
}

bool has(const Argument& argument, char letter) {
  return argument.axes && std::ranges::any_of(*argument.axes, [&](const Axis& axis) {
           return axis.letters.find(letter) != axis.letters.npos;
         });
}

// The part of an argument where the dimension has these indices, in this order.
HostArgument part_of(const HostArgument& whole, const Argument& argument, const LetterSizes& sizes, char letter,
                     const std::vector<std::int64_t>& indices) {
  if (!whole.is_given || !has(argument, letter)) return whole;
  HostArgument part = whole;
  part.values.clear();
  std::vector<std::vector<std::int64_t>> places(whole.shape.size());  // in the whole, along each axis
  for (std::size_t axis = 0; axis < whole.shape.size(); ++axis) {
    const std::string& letters = argument.axes->at(axis).letters;
    const std::size_t at = letters.find(letter);
    if (at == letters.npos) {
      places[axis].resize(static_cast<std::size_t>(whole.shape[axis]));
      std::iota(places[axis].begin(), places[axis].end(), 0);
      continue;
    }
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (i != at) (i < at ? outer : inner) *= sizes.at(letters[i]);
    }
    for (std::int64_t o = 0; o < outer; ++o) {
      for (const std::int64_t index : indices) {
        for (std::int64_t i = 0; i < inner; ++i) places[axis].push_back((o * sizes.at(letter) + index) * inner + i);
      }
    }
    part.shape[axis] = static_cast<std::int64_t>(places[axis].size());
  }
  const auto add = [&](auto& self, std::size_t axis, std::int64_t offset) -> void {
    if (axis == places.size()) return part.values.push_back(whole.values[static_cast<std::size_t>(offset)]);
    for (const std::int64_t place : places[axis]) self(self, axis + 1, offset * whole.shape[axis] + place);
  };
  add(add, 0, 0);
  return part;
}

class OpArgumentsTest : public test::OpTest {
 protected:
  // The arguments of a case, with random values.
  std::vector<HostArgument> arguments(const DeclaredOp& of, bool writes) {
    const std::vector<Argument>& all = writes ? of.signature->writes() : of.signature->reads();
    std::vector<HostArgument> hosts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      HostArgument& host = hosts.emplace_back(HostArgument{.dtype = dtype_of(all[i])});
      host.is_given = of.given[i + (writes ? of.signature->reads().size() : 0)];
      if (!host.is_given) continue;
      host.shape = shape_of(all[i], of.sizes);
      const std::vector<double> random = random_.uniform(Shape(host.shape)).values;
      for (const double value : random) {
        const auto integer = static_cast<std::int64_t>((value + 1) / 2 * static_cast<double>(of.most));
        host.values.push_back(writes                    ? 0
                              : is_floating(host.dtype) ? value
                                                        : static_cast<double>(std::min(integer, of.most - 1)));
      }
    }
    if (!writes) of.prepare(hosts);
    return hosts;
  }

  Tensor on_device(const HostArgument& host) {
    if (!host.is_given) return {};
    const Tensor result = tensor(Shape(host.shape), host.dtype);
    const auto send = [&]<class T>(T) {
      from_host(result, std::vector<T>(host.values.begin(), host.values.end()), stream());
    };
    if (host.dtype == DType::f32) send(float());
    if (host.dtype == DType::i64) send(std::int64_t());
    if (host.dtype == DType::i32) send(std::int32_t());
    if (host.dtype == DType::u8) send(std::uint8_t());
    return result;
  }

  std::vector<HostArgument> run(const DeclaredOp& of, const std::vector<HostArgument>& reads,
                                std::vector<HostArgument> writes, const LetterSizes& sizes) {
    Tensors in, out;
    for (const HostArgument& host : reads) in.push_back(on_device(host));
    for (const HostArgument& host : writes) out.push_back(on_device(host));
    of.queue(in, out, sizes, stream());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (!writes[i].is_given) continue;
      const auto receive = [&]<class T>(T) {
        const std::vector<T> values = to_host<T>(out[i], stream());
        writes[i].values.assign(values.begin(), values.end());
      };
      writes[i].dtype == DType::f32 ? receive(float()) : receive(std::int64_t());
    }
    return writes;
  }

  static void expect_near(const HostArgument& actual, const std::vector<double>& expected, const std::string& what) {
    ASSERT_EQ(actual.values.size(), expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Sums of a dozen products of numbers up to 1, added in another order.
      ASSERT_NEAR(actual.values[i], expected[i], 1e-5) << what << ", element " << i;
    }
  }
};

// Whether that result depends on no input with the dimension, which other results sum over.
bool is_independent(const DeclaredOp& of, const Argument& result, char letter) {
  if (result.name != "db") return false;
  return (of.name.starts_with("dense_backward") && letter == 'i') || (of.name == "conv2d_backward" && letter == 'c');
}

// The dimensions that need not be whole.
std::string open_dimensions(const DeclaredOp& of) {
  std::string letters;
  for (const auto& [letter, size] : of.sizes) {
    const auto is_whole_in = [&](const Argument& argument) {
      return argument.axes && std::ranges::any_of(*argument.axes, [&](const Axis& axis) {
               return axis.is_whole && axis.letters.find(letter) != axis.letters.npos;
             });
    };
    const auto& reads = of.signature->reads();
    if (std::ranges::none_of(reads, is_whole_in) && std::ranges::none_of(of.signature->writes(), is_whole_in)) {
      letters += letter;
    }
  }
  return letters;
}

TEST_P(OpArgumentsTest, DimensionsMayBePermutedAndSplit) {
  std::size_t tried = 0;
  for (const DeclaredOp& of : all_cases()) {
    const std::vector<Argument>&reads_of = of.signature->reads(), &writes_of = of.signature->writes();
    const std::vector<HostArgument> reads = arguments(of, false), writes = arguments(of, true);
    const std::vector<HostArgument> whole = run(of, reads, writes, of.sizes);
    const auto parts = [&](const std::vector<HostArgument>& hosts, const std::vector<Argument>& declared, char letter,
                           const std::vector<std::int64_t>& indices) {
      std::vector<HostArgument> result;
      for (std::size_t i = 0; i < hosts.size(); ++i) {
        result.push_back(part_of(hosts[i], declared[i], of.sizes, letter, indices));
      }
      return result;
    };
    for (const char letter : open_dimensions(of)) {
      ++tried;
      std::vector<std::int64_t> all(static_cast<std::size_t>(of.sizes.at(letter)));
      std::iota(all.begin(), all.end(), 0);
      std::vector<std::int64_t> turned = all;
      std::ranges::rotate(turned, turned.begin() + 1);
      const auto permuted =
          run(of, parts(reads, reads_of, letter, turned), parts(writes, writes_of, letter, turned), of.sizes);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const HostArgument expected = part_of(whole[i], writes_of[i], of.sizes, letter, turned);
        expect_near(permuted[i], expected.values,
                    fmt::format("{}, {} permuted, {}", of.name, letter, writes_of[i].name));
      }
      const bool is_summed = std::ranges::any_of(writes_of, [&](const Argument& write) { return !has(write, letter); });
      std::vector<HostArgument> sums = writes;
      for (const auto& indices : {std::vector(all.begin(), all.begin() + 1), std::vector(all.begin() + 1, all.end())}) {
        LetterSizes sizes = of.sizes;
        sizes[letter] = static_cast<std::int64_t>(indices.size());
        std::vector<HostArgument> of_part = parts(reads, reads_of, letter, indices);
        // What is added to the sum, such as a bias, is added once.
        for (std::size_t i = 0; i < reads.size(); ++i) {
          if (is_summed && reads_of[i].name == "b" && !has(reads_of[i], letter) && indices.front() > 0) of_part[i] = {};
        }
        const auto part = run(of, of_part, parts(writes, writes_of, letter, indices), sizes);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          if (is_independent(of, writes_of[i], letter)) {
            sums[i] = part[i];
            continue;
          }
          if (!has(writes_of[i], letter)) {  // the sum over it
            for (std::size_t k = 0; k < part[i].values.size(); ++k) sums[i].values[k] += part[i].values[k];
            continue;
          }
          const HostArgument expected = part_of(whole[i], writes_of[i], of.sizes, letter, indices);
          expect_near(part[i], expected.values, fmt::format("{}, {} split, {}", of.name, letter, writes_of[i].name));
        }
      }
      for (std::size_t i = 0; i < whole.size(); ++i) {
        if (has(writes_of[i], letter)) continue;
        expect_near(whole[i], sums[i].values, fmt::format("{}, {} summed, {}", of.name, letter, writes_of[i].name));
      }
    }
  }
  EXPECT_GE(tried, 56u);
}

TEST_P(OpArgumentsTest, WhatDoesNotFitIsAnError) {
  for (const DeclaredOp& of : all_cases()) {
    Tensors all;
    const std::size_t read = of.signature->reads().size();
    for (const bool writes : {false, true}) {
      for (const HostArgument& host : arguments(of, writes)) all.push_back(on_device(host));
    }
    const auto expect = [&](ErrorCode code, std::size_t changed, const Tensor& to, const std::string& named) {
      SCOPED_TRACE(fmt::format("{}, argument {}: {}", of.name, changed, to_string(to)));
      Tensors with = all;
      with[changed] = to;
      const Tensors in(with.begin(), with.begin() + static_cast<std::ptrdiff_t>(read));
      const Tensors out(with.begin() + static_cast<std::ptrdiff_t>(read), with.end());
      expect_error(code, {of.name, named}, [&] { of.queue(in, out, of.sizes, stream()); });
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Argument& argument = i < read ? of.signature->reads()[i] : of.signature->writes()[i - read];
      if (!all[i]) continue;
      const std::string name(argument.name);
      expect(ErrorCode::device_mismatch, i, elsewhere(all[i]), to_string(all[i].shape()));
      if (!argument.is_optional) expect(ErrorCode::shape_mismatch, i, {}, name + " is empty");
      if (!std::ranges::all_of(argument.types, [](const auto& type) {
            return (type.dtypes >> static_cast<unsigned>(DType::boolean) & 1) != 0;
          })) {
        expect(ErrorCode::dtype_mismatch, i, tensor(all[i].shape(), DType::boolean), name + " is bool");
      }
      const bool is_open = std::ranges::any_of(*argument.axes, [](const Axis& axis) { return axis.letters.empty(); });
      if (is_open) continue;
      expect(ErrorCode::shape_mismatch, i, tensor(all[i].shape().with_front(1), all[i].dtype()), name + " is ");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OpArgumentsTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
