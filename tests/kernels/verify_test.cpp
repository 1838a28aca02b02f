// Mistakes that a rule could make, each named by the verifier.

#include "runtime/program/verify.h"

#include "kernels/expr/expression_op.h"
#include "kernels/ops.h"
#include "runtime/program/copy.h"
#include "runtime/program/op.h"
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using detail::HeldOp;
using Ops = std::vector<HeldOp>;

std::size_t at(const Ops& ops, const std::string& name) {
  const auto found = std::ranges::find(ops, name, [](const HeldOp& op) { return op.node.op; });
  if (found == ops.end()) throw std::runtime_error("no op " + name);
  return static_cast<std::size_t>(found - ops.begin());
}
template <class Op>
Op& the(Ops& ops, const std::string& name) {
  return dynamic_cast<detail::CallOf<Op>&>(*ops[at(ops, name)].call).op;
}
Tensor& written(Ops& ops, const std::string& name) { return the<expr::Expression>(ops, name).writes[0].to.memory; }
// Puts an op before another.
void move(Ops& ops, const std::string& name, const std::string& before) {
  const auto from = static_cast<std::ptrdiff_t>(at(ops, name));
  const HeldOp op = ops[at(ops, name)];
  ops.erase(ops.begin() + from);
  ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at(ops, before)), op);
}
void drop(Ops& ops, const std::string& name) { ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at(ops, name))); }

class VerifyTest : public ::testing::Test {
 protected:
  // A training step of one layer, which `mistake` then changes.
  void record(void (*mistake)(Ops&, detail::Values&)) {
    static void (*planted)(Ops&, detail::Values&);
    planted = mistake;
    const detail::Rewrite rewrite{[](Ops& ops, detail::Values& values) {
      planted(ops, values);
      detail::verify(ops, values, "the rule planted");
    }};
    detail::Recording::record(
        stream_, [&] { step(); }, {}, rewrite);
  }
  void expect_named(std::initializer_list<std::string> words, void (*mistake)(Ops&, detail::Values&)) {
    test::expect_error(ErrorCode::invalid_argument, words, [&] { record(mistake); });
  }

 private:
  Tensor leaf(DType dtype, const Shape& shape) {
    leaves_.push_back(Buffer::allocate(Device::cpu(), static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return {leaves_.back().place(), dtype, shape, Device::cpu()};
  }
  void step() {
    const Tensor x = leaf(DType::f32, {4, 3}), w = leaf(DType::f32, {3, 2}), b = leaf(DType::f32, {2});
    const Tensor gradient = leaf(DType::f32, {3, 2}), loss = leaf(DType::f32, {}), count = leaf(DType::i64, {});
    const Buffer memory[] = {stream_.allocate(32), stream_.allocate(32), stream_.allocate(24)};
    const Tensor z(memory[0].place(), DType::f32, {4, 2}, Device::cpu());
    const Tensor y(memory[1].place(), DType::f32, {4, 2}, Device::cpu());
    const Tensor dw(memory[2].place(), DType::f32, {3, 2}, Device::cpu());
    giro::dense(z, x, w, b, stream_);
    scale(y, z, 2, stream_);
    dense_backward({}, dw, {}, y, x, w, stream_);
    copy(gradient, dw, stream_);
    add(w, w, gradient, stream_);
    sum(loss, y, stream_);
    fill(b, 0, stream_);
    increment(count, 1, stream_);
  }

  Stream stream_{Device::cpu()};
  std::vector<Buffer> leaves_;
};

TEST_F(VerifyTest, RightProgramsPass) {
  EXPECT_NO_THROW(record([](Ops&, detail::Values&) {}));
  EXPECT_NO_THROW(record([](Ops& ops, detail::Values&) { move(ops, "increment", "dense"); }));
  EXPECT_NO_THROW(record([](Ops& ops, detail::Values&) { move(ops, "sum", "dense_backward"); }));
}

TEST_F(VerifyTest, NamesTheOpWhoseInputHasNoWriter) {
  expect_named({"the rule planted", "'dense_backward'", "no op before it writes"},
               [](Ops& ops, detail::Values&) { drop(ops, "scale"); });
  expect_named({"the rule planted", "'scale'", "no op before it writes"},
               [](Ops& ops, detail::Values&) { move(ops, "scale", "dense"); });
  // A dropped reader: the result that it alone wrote is still read.
  expect_named({"the rule planted", "'add'", "no op before it writes"},
               [](Ops& ops, detail::Values&) { drop(ops, "copy"); });
  // One of several results is forgotten.
  expect_named({"the rule planted", "'copy'", "no op before it writes"},
               [](Ops& ops, detail::Values&) { the<ops::DenseBackward>(ops, "dense_backward").dw = {}; });
}

TEST_F(VerifyTest, NamesAStoreThatIsMissing) {
  expect_named({"the rule planted", "without an op that writes it"},
               [](Ops& ops, detail::Values&) { drop(ops, "add"); });
  expect_named({"the rule planted", "without an op that writes it"},
               [](Ops& ops, detail::Values&) { drop(ops, "increment"); });
}

TEST_F(VerifyTest, NamesTheOpThatReadsWhatWasWrittenOver) {
  expect_named({"the rule planted", "'dense'", "over which value"},
               [](Ops& ops, detail::Values&) { move(ops, "fill", "dense"); });
  expect_named({"the rule planted", "'sum'", "over which value"}, [](Ops& ops, detail::Values&) {
    the<expr::Expression>(ops, "sum").reads[0].memory = the<ops::Dense>(ops, "dense").w;
  });
}

TEST_F(VerifyTest, NamesAValueOfTwoWriters) {
  expect_named({"the rule planted", "'scale'", "an op before it writes"},
               [](Ops& ops, detail::Values&) { ops.push_back(ops[at(ops, "scale")]); });
  expect_named({"the rule planted", "'add'", "was there before the program"},
               [](Ops& ops, detail::Values&) { written(ops, "add") = the<ops::Dense>(ops, "dense").w; });
}

TEST_F(VerifyTest, NamesWhatIsNoWholeValue) {
  expect_named({"the rule planted", "'scale'", "expected all of its 32 bytes"},
               [](Ops& ops, detail::Values&) { written(ops, "scale") = written(ops, "scale").rows(0, 2); });
  expect_named({"the rule planted", "'copy'", "expected no more than its 24 bytes"}, [](Ops& ops, detail::Values&) {
    In& from = the<ops::Copy>(ops, "copy").from;
    from = detail::named(detail::id_of(from), 8, from);
  });
  expect_named({"the rule planted", "'copy'", "no value of the program"}, [](Ops& ops, detail::Values&) {
    static float own[6];
    the<ops::Copy>(ops, "copy").from = Tensor(own, DType::f32, {3, 2}, Device::cpu());
  });
  expect_named({"the rule planted", "'copy'", "no value of the program"}, [](Ops& ops, detail::Values& values) {
    In& from = the<ops::Copy>(ops, "copy").from;
    from = detail::named(static_cast<detail::Id>(values.count() + 1), 0, from);
  });
}

TEST_F(VerifyTest, NamesArgumentsWhoseDimensionsDoNotFit) {
  expect_named({"the rule planted", "'dense'", "w is f32(4, 3)", "expected shape (2, O)"},
               [](Ops& ops, detail::Values&) {
                 auto& dense = the<ops::Dense>(ops, "dense");
                 std::swap(dense.x, dense.w);
               });
  expect_named({"the rule planted", "'dense_backward'", "db is", "expected shape (2,)"}, [](Ops& ops, detail::Values&) {
    auto& backward = the<ops::DenseBackward>(ops, "dense_backward");
    backward.db = backward.dw;
  });
}

}  // namespace
}  // namespace giro
