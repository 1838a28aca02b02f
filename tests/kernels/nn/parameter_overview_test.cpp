#include <giro/kernels/nn/parameter_overview.h>

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

// CLU's example: a kernel (3, 3, 3, 2) and a bias (2,).
State conv_state(std::int64_t out = 2) {
  State state(Device::cpu());
  state.add("params", {{"conv/kernel", DType::f32, {3, 3, 3, out}}, {"conv/bias", DType::f32, {out}}});
  from_host(state.at("params/conv/kernel"), std::vector<float>(static_cast<std::size_t>(27 * out), 1.0f),
            state.stream());
  from_host(state.at("params/conv/bias"), std::vector<float>(static_cast<std::size_t>(out), -0.125f), state.stream());
  return state;
}

TEST(ParameterOverview, Totals56ElementsIn224Bytes) {
  EXPECT_EQ(parameter_overview(conv_state(), {.stats = false}),
            "+-------------+--------------+-------+------+\n"
            "| Name        | Shape        | Dtype | Size |\n"
            "+-------------+--------------+-------+------+\n"
            "| conv/kernel | (3, 3, 3, 2) | f32   | 54   |\n"
            "| conv/bias   | (2,)         | f32   | 2    |\n"
            "+-------------+--------------+-------+------+\n"
            "Total: 56 -- 224 bytes");
}

TEST(ParameterOverview, HasMeansDeviationsAndShards) {
  const State state = conv_state();
  from_host(state.at("params/conv/bias"), std::vector<float>{1, 2.5}, state.stream());
  EXPECT_EQ(parameter_overview(state, {.sharding = true}),
            "+-------------+--------------+-------+------+------+------+----------+\n"
            "| Name        | Shape        | Dtype | Size | Mean | Std  | Sharding |\n"
            "+-------------+--------------+-------+------+------+------+----------+\n"
            "| conv/kernel | (3, 3, 3, 2) | f32   | 54   | 1.0  | 0.0  | ()       |\n"
            "| conv/bias   | (2,)         | f32   | 2    | 1.75 | 0.75 | ()       |\n"
            "+-------------+--------------+-------+------+------+------+----------+\n"
            "Total: 56 -- 224 bytes");
}

TEST(ParameterOverview, ShowsWhichPieceAShardHas) {
  State state(Device::cpu());
  state.add("opt", {{"mu", DType::f32, {6, 8}}}, {.parts = 2, .part = 1});
  const std::string text = parameter_overview(state, {.prefix = "", .stats = false, .sharding = true});
  EXPECT_NE(text.find("| opt/mu | (16,) | f32   | 16   | [32, 48) of (6, 8) |"), std::string::npos) << text;
}

TEST(ParameterOverview, GroupsDigitsAndOmitsRows) {
  const std::string text = parameter_overview(conv_state(100), {.max_rows = 1});
  EXPECT_NE(text.find("| 2,700 | 1.0  | 0.0 |"), std::string::npos) << text;
  EXPECT_EQ(text.find("conv/bias"), std::string::npos);
  EXPECT_NE(text.find("\n[...]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Total: 2,800 -- 11,200 bytes"), std::string::npos) << text;
}

TEST(ParameterOverview, NamesUnknownPrefix) {
  test::expect_error(ErrorCode::not_found, {"parameter_overview", "'weights'"},
                     [] { parameter_overview(conv_state(), {.prefix = "weights"}); });
}

}  // namespace
}  // namespace giro
