// Tests the harness itself: OpTest::check must find every kind of error that an op can make.

#include <gtest/gtest-spi.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using test::Expected, test::OpCase, test::Tensors;

class HarnessTest : public test::OpTest {
 protected:
  // The first failure that check reports, or "" if there is none.
  std::string complaint(const OpCase& op) {
    ::testing::TestPartResultArray results;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
      check(op);
    }
    return results.size() == 0 ? "" : results.GetTestPartResult(0).message();
  }

  // A case with an op that writes ones into an output of eight elements and then calls `also`.
  static OpCase ones(std::function<void(const Tensors& out, const Tensors& in, const Stream& stream)> also) {
    const std::vector<double> eight(8, 1.0);
    return {.name = "ones",
            .inputs = {{DType::f32, {8}, eight}},
            .outputs = {{DType::f32, {8}, {}}},
            .run =
                [=](const Tensors& out, const Tensors& in, const Stream& s) {
                  s.copy(out[0].raw(), in[0].raw(), out[0].bytes());
                  also(out, in, s);
                },
            .expected = {{eight, std::vector<double>(8, 0.0)}}};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HarnessTest, ::testing::Values(Device::Kind::cpu), test::device_name);

char* byte_of(const Tensor& tensor, std::ptrdiff_t i) { return static_cast<char*>(tensor.raw()) + i; }

TEST_P(HarnessTest, AcceptsCorrectOps) {
  EXPECT_EQ(complaint(ones([](const Tensors&, const Tensors&, const Stream&) {})), "");
}

TEST_P(HarnessTest, FindsOutOfBoundsWrites) {
  EXPECT_NE(complaint(ones([](const Tensors& out, const Tensors&, const Stream& s) {
              s.fill(byte_of(out[0], 32), 0, 1);
            })).find("bytes behind"),
            std::string::npos);
  EXPECT_NE(complaint(ones([](const Tensors& out, const Tensors&, const Stream& s) {
              s.fill(byte_of(out[0], -1), 0, 1);
            })).find("bytes in front"),
            std::string::npos);
}

TEST_P(HarnessTest, FindsModifiedInputs) {
  EXPECT_NE(complaint(ones([](const Tensors&, const Tensors& in, const Stream& s) {
              s.fill(byte_of(in[0], 0), 0, 4);
            })).find("was written"),
            std::string::npos);
}

TEST_P(HarnessTest, FindsOutOfBoundsReadsAndUnwrittenElements) {
  const std::string found = "other bits";
  EXPECT_NE(complaint(ones([](const Tensors& out, const Tensors& in, const Stream& s) {
              s.copy(byte_of(out[0], 28), byte_of(in[0], 32), 4);
            })).find(found),
            std::string::npos);
  OpCase all_but_one = ones({});
  all_but_one.run = [](const Tensors& out, const Tensors& in, const Stream& s) {
    s.copy(out[0].raw(), in[0].raw(), out[0].bytes() - 4);
  };
  EXPECT_NE(complaint(all_but_one).find(found), std::string::npos);
}

TEST_P(HarnessTest, FindsOpsThatRunWhileRecording) {
  EXPECT_NE(complaint(ones([](const Tensors& out, const Tensors&, const Stream& s) {
              const OutsideRecording outside;
              Stream(s.device()).fill(byte_of(out[0], 0), 0, 4);
            })).find("recording ran"),
            std::string::npos);
}

TEST_P(HarnessTest, FindsWrongValues) {
  OpCase op = ones([](const Tensors&, const Tensors&, const Stream&) {});
  op.expected[0].values[5] = std::nextafter(1.0, 2.0);
  EXPECT_NE(complaint(op).find("1 of 8 elements are off; element 5"), std::string::npos);
  op.expected[0].tolerances[5] = 1e-15;
  EXPECT_EQ(complaint(op), "");
  op.expected[0].values[5] = test::kNaN;
  EXPECT_NE(complaint(op), "");
}

TEST_P(HarnessTest, NaNIsNeverWithinATolerance) {
  OpCase op = ones([](const Tensors& out, const Tensors&, const Stream& s) { s.fill(byte_of(out[0], 8), 0xFF, 4); });
  op.expected[0].tolerances.assign(8, test::kInfinity);
  EXPECT_NE(complaint(op).find("1 of 8 elements are off; element 2"), std::string::npos);
}

}  // namespace
}  // namespace giro
