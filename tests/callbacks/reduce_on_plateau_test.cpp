#include <giro/callbacks/reduce_on_plateau.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/loop.h>
#include <giro/runtime/files/archive.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

// A state with a scale, and the number of losses that it has seen.
State create() {
  State state(Device::cpu());
  *state.add("learning_rate_scale", {{"", DType::f32, {}}}).leaves().front().value.data<float>() = 1;
  state.add("seen", {{"", DType::i64, {}}});
  return state;
}

// The scale after each step of a loop over these losses, from where the state is.
std::vector<float> scales(State& state, const std::vector<double>& losses, const ReduceOnPlateau& callback) {
  std::vector<float> result;
  const auto train = [&](State& s) {
    std::int64_t& seen = *s.at("seen").data<std::int64_t>();
    return logs().add_loss("loss", losses.at(static_cast<std::size_t>(seen++)));
  };
  const auto look = [&](State& s) { result.push_back(*s.at("learning_rate_scale").data<float>()); };
  auto [end, history, elapsed] =
      loop(std::move(state), std::vector<int>(losses.size()), {{every(1), {train, callback, look}}});
  state = std::move(end);
  return result;
}
std::vector<float> scales(const std::vector<double>& losses, const ReduceOnPlateauOptions& options) {
  State state = create();
  return scales(state, losses, reduce_on_plateau("loss", options));
}

using Scales = std::vector<float>;

TEST(ReduceOnPlateau, WaitsForPatienceEvaluations) {
  const std::vector<double> losses{5, 4, 4, 5, 3, 3, 3, 3, 3};
  EXPECT_EQ(scales(losses, {.factor = 0.5, .patience = 2}), (Scales{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125}));
  EXPECT_EQ(scales(losses, {.factor = 0.5, .patience = 4}), (Scales{1, 1, 1, 1, 1, 1, 1, 1, 0.5}));
  EXPECT_EQ(scales({3, 3, 3}, {.factor = 0.5, .patience = 0}), (Scales{1, 0.5, 0.25}));
  EXPECT_EQ(scales({1, 2, 3, 2, 2}, {.factor = 0.5, .patience = 2, .mode = "max"}), (Scales{1, 1, 1, 1, 0.5}));
}

TEST(ReduceOnPlateau, PatienceOptions) {
  EXPECT_EQ(scales({4, 3.75, 3.5, 3}, {.factor = 0.5, .patience = 1, .min_delta = 0.5}), (Scales{1, 0.5, 0.25, 0.25}));
  EXPECT_EQ(scales({1, 1, 1, 1, 1, 1}, {.factor = 0.5, .patience = 1, .cooldown = 2}),
            (Scales{1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(scales({1, 1, 1, 1}, {.factor = 0.5, .patience = 1, .min_scale = 0.4}), (Scales{1, 0.5, 0.4f, 0.4f}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(scales({nan, nan, 1, nan}, {.factor = 0.5, .patience = 2}), (Scales{1, 0.5, 0.5, 0.5}));
}

TEST(ReduceOnPlateau, ContinuesInTheNextLoopAndAfterRestart) {
  const std::vector<double> losses{5, 5, 5, 5, 5, 5, 4, 4, 4, 4};
  const ReduceOnPlateauOptions options{.factor = 0.5, .patience = 3, .cooldown = 1};
  const Scales whole = scales(losses, options);
  State state = create();
  ReduceOnPlateau callback = reduce_on_plateau("loss", options);
  Scales parts;
  for (const std::ptrdiff_t size : {2, 3, 5}) {
    const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(parts.size());
    *state.at("seen").data<std::int64_t>() = 0;
    const Scales found = scales(state, {begin, begin + size}, callback);
    parts.insert(parts.end(), found.begin(), found.end());
    if (size != 3) continue;
    Archive saved;
    callback.persist(saved);
    Archive archive = Archive::read(saved.text());
    callback = reduce_on_plateau("loss", options);
    callback.persist(archive);
  }
  EXPECT_EQ(parts, whole);
}

TEST(ReduceOnPlateau, Errors) {
  const auto refuses = [](const std::string& what, const ReduceOnPlateauOptions& options) {
    expect_invalid({what}, [&] { reduce_on_plateau("loss", options); });
  };
  refuses("factor", {.factor = 1});
  refuses("factor", {.factor = std::nan("")});
  refuses("patience", {.patience = -1});
  refuses("min_delta", {.min_delta = -1});
  refuses("mode", {.mode = "mim"});
  refuses("cooldown", {.cooldown = -1});
  refuses("min_scale", {.min_scale = -1});
  State state(Device::cpu());
  state.add("seen", {{"", DType::i64, {}}});
  expect_error(ErrorCode::not_found, {"learning_rate_scale"}, [&] {
    scales(state, {1, 2}, reduce_on_plateau("loss"));
  });
}

}  // namespace
}  // namespace giro
