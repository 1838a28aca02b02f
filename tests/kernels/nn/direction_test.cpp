// Which values say which way they are better, and what passes it on.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/losses.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/runtime/host_array.h>

namespace giro::nn {
namespace {

using Named = std::vector<std::pair<std::string, Var>>;

class DirectionTest : public testing::Test {
 protected:
  Var floats(const Shape& shape) const {
    return constant(HostArray(std::vector<float>(static_cast<std::size_t>(shape.count()), 0.5f), shape), stream_);
  }
  Var integers(const Shape& shape) const {
    return constant(HostArray(std::vector<std::int32_t>(static_cast<std::size_t>(shape.count()), 1), shape), stream_);
  }
  static void expect_all(Direction direction, const Named& values) {
    for (const auto& [name, value] : values) EXPECT_EQ(value.direction(), direction) << name;
  }

  const Stream stream_{Device::cpu()};
  const Var logits_ = floats({4, 3}), labels_ = integers({4}), x_ = floats({4}), y_ = floats({4});
};

TEST_F(DirectionTest, LossesAreBetterIfTheyAreLower) {
  expect_all(Direction::lower, {{"squared_error", squared_error(x_, y_)},
                                {"absolute_error", absolute_error(x_, y_)},
                                {"huber", huber(x_, y_)},
                                {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits(x_, y_)},
                                {"softmax_cross_entropy", softmax_cross_entropy(logits_, labels_)},
                                {"of more axes", softmax_cross_entropy(floats({2, 2, 3}), integers({2, 2}))},
                                {"of targets", softmax_cross_entropy(logits_, floats({4, 3}))},
                                {"smoothed", softmax_cross_entropy(logits_, labels_, {.label_smoothing = 0.1})},
                                {"ignored", softmax_cross_entropy(logits_, labels_, {.ignored_label = 1})},
                                {"kl_divergence", kl_divergence(logits_, logits_)},
                                {"cosine_distance", cosine_distance(logits_, logits_)},
                                {"perplexity", perplexity(softmax_cross_entropy(logits_, labels_)).value}});
}

TEST_F(DirectionTest, FractionsOfWhatIsRightAreBetterIfTheyAreHigher) {
  expect_all(Direction::higher, {{"accuracy", accuracy(logits_, labels_)},
                                 {"masked accuracy", accuracy(logits_, labels_, integers({4})).value},
                                 {"correct", correct(logits_, labels_)},
                                 {"top_k_accuracy", top_k_accuracy(logits_, labels_, 2).value},
                                 {"precision", precision(labels_, labels_).value},
                                 {"recall", recall(labels_, labels_).value}});
}

TEST_F(DirectionTest, MeansSumsCastsAndViewsPassItOn) {
  for (const Direction direction : {Direction::unknown, Direction::lower, Direction::higher}) {
    const Var values = x_ + 1;
    values.set_direction(direction);
    const Var one = mean(values);
    expect_all(direction, {{"mean", one},
                           {"mean over an axis", mean(values, {0})},
                           {"mean of several", mean(std::vector{one, sum(values)})},
                           {"sum", sum(values)},
                           {"weighted_mean", weighted_mean(values, y_)},
                           {"average", average(values).value},
                           {"cast", cast(values, DType::f64)},
                           {"reshape", values.reshape({2, 2})},
                           {"stop_gradient", stop_gradient(values)}});
    expect_all(Direction::unknown,
               {{"another value", values * -1},
                {"a spread", standard_deviation(values).value},
                {"of several kinds", mean(std::vector{one, mean(logits_), accuracy(logits_, labels_)})}});
  }
}

}  // namespace
}  // namespace giro::nn
