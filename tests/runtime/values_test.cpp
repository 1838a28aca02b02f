#include "runtime/program/values.h"

#include <gtest/gtest.h>

#include <array>

#include "runtime/arena.h"
#include "runtime/program/op.h"

namespace giro::detail {
namespace {

struct Step {
  std::vector<Out> writes;
  std::vector<In> reads;
  std::vector<InOut> changes;
};
void run(const Step&, const Stream&) {}

class ValuesTest : public ::testing::Test {
 protected:
  // Elements [begin, end) of an array that exists before the program.
  Tensor leaf(std::int64_t begin, std::int64_t end) {
    return Tensor(memory_.data(), DType::u8, {100}, Device::cpu()).rows(begin, end);
  }
  Tensor temporary(std::int64_t bytes, bool is_held = false) {
    Buffer buffer = trace_->allocate(static_cast<std::size_t>(bytes));
    const Tensor tensor(buffer.place(), DType::u8, {bytes}, Device::cpu());
    if (is_held) held_.push_back(std::move(buffer));
    return tensor;
  }
  void add(const std::vector<Tensor>& writes, const std::vector<Tensor>& reads,
           const std::vector<Tensor>& changes = {}) {
    Step op{{writes.begin(), writes.end()}, {reads.begin(), reads.end()}, {changes.begin(), changes.end()}};
    ops_.push_back({Program::Node("op", {}, {}), stream_, std::make_shared<CallOf<Step>>(std::move(op))});
  }
  const Step& op(std::size_t i) const { return *op_of<Step>(ops_[i]); }
  void expect_name(const Tensor& tensor, const Tensor& value, std::size_t offset = 0) const {
    EXPECT_NE(id_of(tensor), 0u);
    EXPECT_EQ(id_of(tensor), id_of(value));
    EXPECT_EQ(offset_of(tensor), offset);
  }

  Stream stream_{Device::cpu()};
  std::shared_ptr<Arena> trace_ = std::make_shared<Arena>(Device::cpu(), Arena::Kind::trace);
  std::array<unsigned char, 100> memory_{};
  std::vector<Buffer> held_;
  std::vector<HeldOp> ops_;
};

TEST_F(ValuesTest, MemoryWrittenTwiceHoldsTwoValues) {
  add({leaf(0, 10)}, {leaf(0, 10)});
  add({leaf(20, 30)}, {leaf(0, 10)});
  add({leaf(0, 10)}, {leaf(5, 10)});
  add({}, {leaf(0, 10)});
  const Values values = number(ops_, *trace_);
  EXPECT_TRUE(values.of(op(0).reads[0]).is_input);
  EXPECT_NE(id_of(op(0).reads[0]), id_of(op(0).writes[0]));
  expect_name(op(1).reads[0], op(0).writes[0]);
  expect_name(op(2).reads[0], op(0).writes[0], 5);
  expect_name(op(3).reads[0], op(2).writes[0]);
  EXPECT_EQ(values.of(op(2).writes[0]).over, std::vector{id_of(op(0).writes[0])});
  EXPECT_EQ(values.of(op(0).writes[0]).under, std::vector{id_of(op(2).writes[0])});
}

TEST_F(ValuesTest, ArrayWrittenInPartsIsAValueOfParts) {
  add({leaf(10, 20)}, {});
  add({}, {leaf(0, 30)});
  add({}, {leaf(0, 30)});
  add({leaf(15, 25)}, {});
  add({}, {leaf(0, 30)});
  const Values values = number(ops_, *trace_);
  const std::vector<Value::Part>& parts = values.of(op(1).reads[0]).parts;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(values[parts[0].id].is_input);
  EXPECT_EQ(parts[1], (Value::Part{10, 10, id_of(op(0).writes[0]), 0}));
  EXPECT_EQ(values[parts[1].id].wholes.front(), id_of(op(1).reads[0]));
  EXPECT_TRUE(values[parts[2].id].is_input);
  expect_name(op(2).reads[0], op(1).reads[0]);
  // The second write cuts the first one and what lies behind it.
  EXPECT_EQ(values.of(op(4).reads[0]).parts,
            (std::vector<Value::Part>{
                parts[0], {10, 5, parts[1].id, 0}, {15, 10, id_of(op(3).writes[0]), 0}, {25, 5, parts[2].id, 5}}));
  std::vector<Id> of_rows;
  values.for_each(op(4).reads[0].rows(12, 16), [&](Id id) { of_rows.push_back(id); });
  EXPECT_EQ(of_rows, (std::vector{id_of(op(4).reads[0]), parts[1].id, id_of(op(3).writes[0])}));
}

TEST_F(ValuesTest, OnlyWhatIsNotHeldIsTemporary) {
  const Tensor free = temporary(10), held = temporary(10, true);
  add({free, held, leaf(0, 10)}, {});
  trace_->settle_held();
  const Values values = number(ops_, *trace_);
  EXPECT_TRUE(values.of(op(0).writes[0]).is_temporary);
  EXPECT_FALSE(values.of(op(0).writes[1]).is_temporary);
  EXPECT_FALSE(values.of(op(0).writes[2]).is_temporary);
}

TEST_F(ValuesTest, ChangedValueHasOneBeforeIt) {
  add({leaf(0, 8)}, {});
  add({}, {}, {leaf(0, 8)});
  add({}, {leaf(0, 8)});
  const Values values = number(ops_, *trace_);
  EXPECT_EQ(values.of(op(1).changes[0]).before, id_of(op(0).writes[0]));
  expect_name(op(2).reads[0], op(1).changes[0]);
}

// An op may name an array for each part of it that it writes.
TEST_F(ValuesTest, ArrayNamedTwiceByAnOpIsOneValue) {
  add({leaf(0, 8), leaf(0, 8), leaf(8, 16)}, {});
  (void)number(ops_, *trace_);
  expect_name(op(0).writes[1], op(0).writes[0]);
  EXPECT_NE(id_of(op(0).writes[2]), id_of(op(0).writes[0]));
}

TEST_F(ValuesTest, ValuesWithoutElementsAreTold) {
  add({leaf(3, 3)}, {});
  add({}, {leaf(3, 3), leaf(4, 4)});
  const Values values = number(ops_, *trace_);
  expect_name(op(1).reads[0], op(0).writes[0]);
  EXPECT_TRUE(values.of(op(1).reads[1]).is_input);
}

TEST_F(ValuesTest, NamesLeadBackToTheMemory) {
  const Tensor traced = leaf(4, 9);
  add({leaf(0, 10)}, {});
  add({}, {traced});
  const Values values = number(ops_, *trace_);
  EXPECT_NE(op(1).reads[0].raw(), traced.raw());
  EXPECT_EQ(values.placed(op(1).reads[0]).raw(), traced.raw());
  EXPECT_EQ(values.placed(traced).raw(), traced.raw()) << "memory stays what it is";
}

}  // namespace
}  // namespace giro::detail
