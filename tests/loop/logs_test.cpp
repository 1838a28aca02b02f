#include <giro/loop/logs.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <giro/kernels/nn/var.h>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

TEST(Logs, AddersNameTheirCollections) {
  const Logs l = logs().add_loss("a", 1).add_metric("b", 2).add_stateful_metric("c", 3).add_entry("mine", "d", 4);
  EXPECT_EQ(l.entry_value("losses.a"), 1);
  EXPECT_EQ(l.entry_value("metrics.b"), 2);
  EXPECT_EQ(l.entry_value("stateful_metrics.c"), 3);
  EXPECT_EQ(l.entry_value("mine.d"), 4);
  EXPECT_EQ(l.entry_value("c"), 3);
  EXPECT_EQ(l.entries().size(), 4u);
}

TEST(Logs, ALossCanBeAMetricToo) {
  const Logs l = logs().add_loss("loss", 1, /*add_metric=*/true);
  EXPECT_EQ(l.entry_value("losses.loss"), 1);
  EXPECT_EQ(l.entry_value("metrics.loss"), 1);
}

TEST(Logs, TheLastWriteWinsInPlace) {
  const Logs l = logs().add_metric("a", 1).add_metric("b", 2).add_metric("a", 3);
  ASSERT_EQ(l.entries().size(), 2u);
  EXPECT_EQ(l.entries()[0].name, "a");
  EXPECT_EQ(l.entry_value("a"), 3);
}

TEST(Logs, Merge) {
  Logs l = logs().add_loss("a", 1).add_metric("b", 2);
  l.merge(logs().add_metric("b", 20).add_metric("a", 5).add_stateful_metric("c", 3));
  EXPECT_EQ(l.entry_value("losses.a"), 1);
  EXPECT_EQ(l.entry_value("metrics.a"), 5);
  EXPECT_EQ(l.entry_value("b"), 20);
  EXPECT_EQ(l.entry_value("c"), 3);
  EXPECT_EQ(l.entries().size(), 4u);

  Logs empty;
  empty.merge(l);
  EXPECT_EQ(empty.entries().size(), 4u);
  empty.merge({});
  EXPECT_EQ(empty.entries().size(), 4u);
}

TEST(Logs, EntryValueErrors) {
  const Logs l = logs().add_loss("loss", 1, true).add_metric("accuracy", 2);
  expect_error(ErrorCode::invalid_argument, {"'loss'", "'metrics.loss'", "'losses.loss'"},
               [&] { l.entry_value("loss"); });
  expect_error(ErrorCode::not_found, {"'acuracy'", "'accuracy'"}, [&] { l.entry_value("acuracy"); });
  expect_error(ErrorCode::not_found, {"'metrics.los'", "'metrics.loss'"}, [&] { l.entry_value("metrics.los"); });
  expect_error(ErrorCode::not_found, {"'loss'"}, [] { logs().entry_value("loss"); });
}

TEST(LogValue, HostNumbers) {
  const LogValue value(0.25);
  EXPECT_TRUE(value.ready());
  EXPECT_EQ(value.value(), 0.25);
  EXPECT_EQ(value.scalar(), nullptr);
}

TEST(LogValue, ScalarsOfAnyDType) {
  const Stream stream{Device::cpu()};
  float f = 0.1f;
  std::int64_t i = 1LL << 52;
  std::uint8_t u = 200;
  const auto value = [&](void* data, DType dtype) {
    return LogValue(nn::Var(Tensor(data, dtype, {}, Device::cpu()), stream)).value();
  };
  EXPECT_EQ(value(&f, DType::f32), static_cast<double>(0.1f));
  EXPECT_EQ(value(&i, DType::i64), static_cast<double>(1LL << 52));
  EXPECT_EQ(value(&u, DType::u8), 200);
}

TEST(LogValue, MustBeAScalar) {
  const Stream stream{Device::cpu()};
  std::vector<float> numbers(3);
  const LogValue value(nn::Var(Tensor(numbers.data(), DType::f32, {3}, Device::cpu()), stream));
  expect_error(ErrorCode::shape_mismatch, {"(3,)", "scalar"}, [&] { value.value(); });
}

}  // namespace
}  // namespace giro
