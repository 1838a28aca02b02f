#include <giro/runtime/files/load_into.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/files/save_load.h>
#include <giro/runtime/program/graph.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using Names = std::vector<std::string>;

class LoadIntoTest : public test::DeviceTest {
 protected:
  void prepare() override {
    state_ = std::make_unique<State>(device());
    state_->add("params", {{"encoder/layer0/kernel", DType::f32, {2}},
                           {"encoder/layer1/kernel", DType::f32, {2}},
                           {"head/kernel", DType::f32, {2, 3}}});
    state_->add("step", {{"", DType::i64, {}}});
    state_->add("grads", {{"head/kernel", DType::f32, {2, 3}}}, {.saved = false});
  }

  // A leaf on the host with all elements equal to `value`.
  template <class T>
  Leaf leaf(const std::string& path, T value, const Shape& shape) {
    auto memory = std::make_shared<std::vector<T>>(static_cast<std::size_t>(shape.count()), value);
    memory_.push_back(memory);
    return {path, Tensor(memory->data(), dtype_of<T>, shape, Device::cpu())};
  }
  std::vector<Leaf> whole() {
    return {leaf("params/encoder/layer0/kernel", 1.f, {2}), leaf("params/encoder/layer1/kernel", 2.f, {2}),
            leaf("params/head/kernel", 3.f, {2, 3}), leaf("step", std::int64_t{4}, {})};
  }
  // The same leaves under another program's names.
  std::vector<Leaf> foreign() {
    return {leaf("model.layers.0.weight", 1.f, {2}), leaf("model.layers.1.weight", 2.f, {2}),
            leaf("classifier/kernel", 3.f, {2, 3}), leaf("global_step", std::int64_t{4}, {})};
  }
  const std::vector<std::pair<std::string, std::string>> kRename = {
      {"model.layers.*.weight", "params/encoder/layer*/kernel"},
      {"classifier", "params/head"},
      {"global_step", "step"}};

  float value(const std::string& path) const {
    const auto values = to_host<float>(state_->at(path), state_->stream());
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), static_cast<std::ptrdiff_t>(values.size()));
    return values[0];
  }
  std::int64_t step() const { return read(state_->at("step"), state_->stream()); }
  void expect_whole() const {
    EXPECT_EQ(value("params/encoder/layer0/kernel"), 1);
    EXPECT_EQ(value("params/encoder/layer1/kernel"), 2);
    EXPECT_EQ(value("params/head/kernel"), 3);
    EXPECT_EQ(step(), 4);
    EXPECT_EQ(value("grads/head/kernel"), 0);
  }
  // Expects the error, and that nothing was changed before it.
  void expect_rejected(ErrorCode code, std::initializer_list<std::string> words, const std::vector<Leaf>& leaves,
                       const LoadOptions& options = {}) {
    expect_error(code, words, [&] { load_into(*state_, leaves, options); });
    for (const Leaf& leaf : state_->flatten("params")) EXPECT_EQ(value(leaf.path), 0) << leaf.path;
    EXPECT_EQ(step(), 0);
  }

  std::unique_ptr<State> state_;
  std::vector<std::shared_ptr<void>> memory_;
};
INSTANTIATE_TEST_SUITE_P(Each, LoadIntoTest, test::kEachDevice, test::name_of_device);

TEST_P(LoadIntoTest, OptionalLeavesMayBeMissingOrExtra) {
  std::vector<Leaf> leaves = whole();
  leaves[3] = leaf("loss_scale/scale", 5.f, {});  // instead of step
  const LoadReport report = load_into(*state_, leaves, {.optional = {"loss_scale", "step"}});
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(value("params/head/kernel"), 3);
  EXPECT_EQ(report.text(), "3 leaves loaded");
  load_into(*state_, whole(), {.optional = {"step"}});
  EXPECT_EQ(step(), 4);  // an optional leaf is loaded if present
}

TEST_P(LoadIntoTest, RequiredLeavesMayNotBeMissing) {
  std::vector<Leaf> leaves = whole();
  leaves[3] = leaf("loss_scale/scale", 5.f, {});
  expect_rejected(ErrorCode::not_found, {"missing", "step"}, leaves, {.optional = {"loss_scale"}});
  expect_rejected(ErrorCode::not_found, {"extra", "loss_scale/scale"}, leaves, {.optional = {"step"}});
}

TEST_P(LoadIntoTest, LoadsAllSavedLeaves) {
  const LoadReport report = load_into(*state_, whole());
  expect_whole();
  EXPECT_EQ(report.loaded,
            (Names{"params/encoder/layer0/kernel", "params/encoder/layer1/kernel", "params/head/kernel", "step"}));
  EXPECT_EQ(report.text(), "4 leaves loaded");
}

TEST_P(LoadIntoTest, LoadsFromAFile) {
  const test::TemporaryDirectory dir;
  load_into(*state_, whole());
  save(dir / "a", *state_);
  state_->stream().fill(state_->collection("params").bytes().raw(), 0, state_->collection("params").bytes().bytes());
  load_into(*state_, load(dir / "a").tensors);
  expect_whole();
}

TEST_P(LoadIntoTest, AcceptsLeavesOfTheSameDevice) {
  State other{device()};
  other.add("step", {{"", DType::i64, {}}});
  from_host<std::int64_t>(other.at("step"), {7}, other.stream());
  load_into(*state_, other.flatten(), {.only = {"step"}});
  EXPECT_EQ(step(), 7);
}

TEST_P(LoadIntoTest, LoadsOnlySelectedLeaves) {
  for (const char* only : {"params/encoder", "params/encoder/**", "params/*/layer*/kernel"}) {
    state_->stream().fill(state_->collection("params").bytes().raw(), 0, state_->collection("params").bytes().bytes());
    const LoadReport report = load_into(*state_, whole(), {.only = {only}});
    EXPECT_EQ(report.loaded.size(), 2u) << only;
    EXPECT_TRUE(report.extra.empty()) << "what nobody asked for is not extra";
    EXPECT_EQ(value("params/encoder/layer1/kernel"), 2);
    EXPECT_EQ(value("params/head/kernel"), 0);
    EXPECT_EQ(step(), 0);
  }
  EXPECT_EQ(load_into(*state_, whole(), {.only = {"step", "params/head"}}).loaded,
            (Names{"params/head/kernel", "step"}));
}

TEST_P(LoadIntoTest, SelectionIsCheckedForMissingAndExtraLeaves) {
  std::vector<Leaf> leaves = whole();
  leaves.push_back(leaf("params/encoder/layer2/kernel", 1.f, {2}));
  leaves.push_back(leaf("params/other", 1.f, {2}));
  expect_rejected(ErrorCode::not_found, {"1 extra: \"params/encoder/layer2/kernel\""}, leaves,
                  {.only = {"params/encoder"}});
  leaves.erase(leaves.begin());
  expect_rejected(ErrorCode::not_found, {"1 missing: params/encoder/layer0/kernel"}, leaves, {.only = {"**/layer0/*"}});
}

TEST_P(LoadIntoTest, PatternThatMatchesNothingIsAnError) {
  for (const bool strict : {true, false}) {
    expect_rejected(ErrorCode::not_found, {"'step2'", "did you mean 'step'?"}, whole(),
                    {.only = {"params", "step2"}, .strict = strict});
    expect_rejected(ErrorCode::not_found, {"'grads/**'", "no saved leaf"}, whole(),
                    {.only = {"grads/**"}, .strict = strict});
  }
}

TEST_P(LoadIntoTest, RenamesPrefixesAndPatterns) {
  load_into(*state_, foreign(), {.rename = kRename});
  expect_whole();
}

TEST_P(LoadIntoTest, FirstMatchingRenameApplies) {
  const LoadReport report =
      load_into(*state_, {leaf("a/kernel", 5.f, {2, 3})},
                {.only = {"params/head"}, .rename = {{"a", "params/head"}, {"a/kernel", "nowhere"}}});
  EXPECT_EQ(report.loaded, Names{"params/head/kernel"});
  EXPECT_EQ(value("params/head/kernel"), 5);
}

TEST_P(LoadIntoTest, TwoLeavesForOnePathAreAnError) {
  std::vector<Leaf> leaves = whole();
  leaves.push_back(leaves.back());
  expect_rejected(ErrorCode::invalid_argument, {"\"step\" and \"step\""}, leaves);
  leaves.back() = leaf("other", std::int64_t{1}, {});
  expect_rejected(ErrorCode::invalid_argument, {"\"step\" and \"other\"", "leaf \"step\""}, leaves,
                  {.rename = {{"other", "step"}}, .strict = false});
}

TEST_P(LoadIntoTest, WildcardsOfARenamingMustCorrespond) {
  expect_rejected(ErrorCode::invalid_argument, {"'a.*.*' has 2", "'b/*' has 1"}, whole(),
                  {.rename = {{"a.*.*", "b/*"}}});
}

TEST_P(LoadIntoTest, StrictErrorNamesEverything) {
  std::vector<Leaf> leaves = whole();
  leaves[0].path = "params/encoder/layer0/kernels";
  leaves[1] = leaf("params/encoder/layer1/kernel", 1.f, {3});
  leaves[2] = leaf("params/head/kernel", 1.0, {2, 3});
  expect_rejected(ErrorCode::not_found,
                  {"1 missing: params/encoder/layer0/kernel;", "1 extra: \"params/encoder/layer0/kernels\"",
                   "2 mismatched: params/encoder/layer1/kernel is f32(3,), expected f32(2,)",
                   "params/head/kernel is f64(2, 3), expected f32(2, 3)",
                   "nearest to params/encoder/layer0/kernel is \"params/encoder/layer0/kernels\""},
                  leaves);
  leaves[0] = whole()[0];
  expect_rejected(ErrorCode::shape_mismatch, {"layer1/kernel is f32(3,)", "head/kernel is f64"}, leaves);
  leaves[1] = whole()[1];
  expect_rejected(ErrorCode::dtype_mismatch, {"1 mismatched", "f64(2, 3), expected f32(2, 3)"}, leaves);
  leaves[2] = leaf("params/head/kernel", BFloat16(1.f), {2, 3});
  expect_rejected(ErrorCode::dtype_mismatch, {"bf16(2, 3), expected f32(2, 3)"}, leaves);
}

TEST_P(LoadIntoTest, ConvertsFloatingLeavesOnRequest) {
  std::vector<Leaf> leaves = whole();
  leaves[0] = leaf("params/encoder/layer0/kernel", BFloat16(1.f), {2});
  leaves[1] = leaf("params/encoder/layer1/kernel", Float16(2.f), {2});
  leaves[2] = leaf("params/head/kernel", 3.0, {2, 3});
  expect_rejected(ErrorCode::dtype_mismatch, {"3 mismatched", "LoadOptions::convert"}, leaves);
  EXPECT_EQ(load_into(*state_, leaves, {.convert = true}).loaded.size(), 4u);
  expect_whole();
  // Leaves of 16 bits take f32 values, also from the device.
  State half{device()};
  half.add("params", {{"encoder/layer0/kernel", DType::bf16, {2}}, {"head/kernel", DType::f16, {2, 3}}});
  from_host<float>(state_->at("params/head/kernel"), {1, -2, 0x1.002p0f, 0x1.006p0f, 65519, -0.f}, state_->stream());
  const std::vector<Leaf> mine = state_->flatten("params");
  load_into(half, {mine[0], mine[2]}, {.convert = true});
  EXPECT_EQ(static_cast<float>(to_host<BFloat16>(half.at("params/encoder/layer0/kernel"), half.stream())[1]), 1.f);
  const std::vector<Float16> head = to_host<Float16>(half.at("params/head/kernel"), half.stream());
  const std::vector<std::uint16_t> expected{0x3C00, 0xC000, 0x3C00, 0x3C02, 0x7BFF, 0x8000};  // halves go to even
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(head[i].bits, expected[i]) << i;
}

TEST_P(LoadIntoTest, ConvertsNeitherIntegersNorOutOfRangeValues) {
  std::vector<Leaf> leaves = whole();
  leaves[3] = leaf("step", 4.f, {});
  expect_rejected(ErrorCode::dtype_mismatch, {"step is f32(), expected i64()"}, leaves, {.convert = true});
  leaves = whole();
  leaves[0] = leaf("params/encoder/layer0/kernel", BFloat16(1.f), {2});
  leaves[2] = leaf("params/head/kernel", 1e300, {2, 3});
  expect_rejected(ErrorCode::invalid_argument, {"'params/head/kernel' holds 1e+300, which f32 cannot hold"}, leaves,
                  {.convert = true});
}

TEST_P(LoadIntoTest, ErrorNamesLeavesAsGiven) {
  std::vector<Leaf> leaves = foreign();
  leaves[0].path = "model.layers.0.wieght";
  leaves[2] = leaf("classifier/kernel", 3.f, {3, 2});
  expect_rejected(ErrorCode::not_found,
                  {"1 missing: params/encoder/layer0/kernel (from \"model.layers.0.weight\");",
                   "params/head/kernel (from \"classifier/kernel\") is f32(3, 2), expected f32(2, 3)",
                   "nearest to model.layers.0.weight is \"model.layers.0.wieght\""},
                  leaves, {.rename = kRename});
}

TEST_P(LoadIntoTest, NonStrictLoadsWhatFitsAndReportsTheRest) {
  std::vector<Leaf> leaves = whole();
  leaves[0].path = "odd\nname";
  leaves[2] = leaf("params/head/kernel", 1.f, {3, 2});
  const LoadReport report = load_into(*state_, leaves, {.strict = false});
  EXPECT_EQ(report.loaded, (Names{"params/encoder/layer1/kernel", "step"}));
  EXPECT_EQ(report.missing, Names{"params/encoder/layer0/kernel"});
  EXPECT_EQ(report.extra, Names{"odd\nname"});
  EXPECT_EQ(report.mismatched, Names{"params/head/kernel is f32(3, 2), expected f32(2, 3)"});
  EXPECT_EQ(report.text(),
            "2 leaves loaded; 1 missing: params/encoder/layer0/kernel; 1 extra: \"odd\\nname\"; 1 mismatched: "
            "params/head/kernel is f32(3, 2), expected f32(2, 3)");
  EXPECT_EQ(value("params/encoder/layer0/kernel"), 0);
  EXPECT_EQ(value("params/encoder/layer1/kernel"), 2);
  EXPECT_EQ(value("params/head/kernel"), 0);
  EXPECT_EQ(step(), 4);
}

TEST_P(LoadIntoTest, RejectsAnotherDevice) {
  std::vector<Leaf> leaves = whole();
  Tensor& step = leaves.back().value;
  step = Tensor(step.raw(), step.dtype(), step.shape(), Device::cuda(1));
  expect_rejected(ErrorCode::device_mismatch, {"'step'", "cuda:1", "on " + to_string(device())}, leaves,
                  {.strict = false});
}

TEST_P(LoadIntoTest, RejectsRecording) {
  expect_error(ErrorCode::invalid_argument, {},
               [&] { Graph::record(state_->stream(), [&] { load_into(*state_, whole()); }); });
  EXPECT_EQ(step(), 0);
}

TEST(LoadReportTest, NamesTwentyAndCountsTheRest) {
  LoadReport report;
  for (int i = 0; i < 23; ++i) report.missing.push_back("leaf" + std::to_string(i));
  const std::string text = report.text();
  EXPECT_NE(text.find("23 missing: leaf0, "), std::string::npos) << text;
  EXPECT_NE(text.find("leaf19 and 3 more"), std::string::npos) << text;
  EXPECT_EQ(text.find("leaf20"), std::string::npos) << text;
}

}  // namespace
}  // namespace giro
