#include "tests/kernels/nn/jax/cases.h"

namespace giro::nn {

std::vector<Case> loss_cases() {
  const std::vector<Input> pair{{"prediction", {3, 5}, -2, 2}, {"target", {3, 5}, -2, 2}};
  const Input logits{"logits", {4, 7}, -3, 3}, labels{"labels", {4}, 0, 6, DType::i32},
      targets{"targets", {4, 7}, 0.05, 1}, class_weights{"class_weights", {7}, 0.5, 2};
  return {
      op("squared_error", pair, [](const Vars& in) { return squared_error(in[0], in[1]); }),
      op(
          "absolute_error", pair, [](const Vars& in) { return absolute_error(in[0], in[1]); }, false),
      op("huber", pair, [](const Vars& in) { return huber(in[0], in[1], 0.75); }),
      op("binary_cross_entropy_with_logits", {logits, targets},
         [](const Vars& in) { return binary_cross_entropy_with_logits(in[0], in[1]); }),
      op("binary_cross_entropy_with_logits, positive_weight", {logits, targets, class_weights},
         [](const Vars& in) { return binary_cross_entropy_with_logits(in[0], in[1], {.positive_weight = in[2]}); }),
      op("softmax_cross_entropy", {logits, labels}, [](const Vars& in) { return softmax_cross_entropy(in[0], in[1]); }),
      op("softmax_cross_entropy of sequences", {{"logits", {2, 3, 5}, -3, 3}, {"labels", {2, 3}, 0, 4, DType::u8}},
         [](const Vars& in) { return softmax_cross_entropy(in[0], in[1]); }),
      op("softmax_cross_entropy, smoothing", {logits, labels},
         [](const Vars& in) { return softmax_cross_entropy(in[0], in[1], {.label_smoothing = 0.125}); }),
      op("softmax_cross_entropy, smoothing, class weights, ignored label",
         {logits, {"labels", {4}, 2, 4, DType::i64}, class_weights},
         [](const Vars& in) {
           return softmax_cross_entropy(in[0], in[1],
                                        {.label_smoothing = 0.125, .class_weights = in[2], .ignored_label = 3});
         }),
      op("softmax_cross_entropy, soft targets", {logits, targets},
         [](const Vars& in) { return softmax_cross_entropy(in[0], in[1]); }),
      op("softmax_cross_entropy, soft targets, smoothing, class weights", {logits, targets, class_weights},
         [](const Vars& in) {
           return softmax_cross_entropy(in[0], in[1], {.label_smoothing = 0.25, .class_weights = in[2]});
         }),
      op("kl_divergence", {logits, targets}, [](const Vars& in) { return kl_divergence(log_softmax(in[0]), in[1]); }),
      op("cosine_similarity", pair, [](const Vars& in) { return cosine_similarity(in[0], in[1]); }),
      op("cosine_distance along the first axis", pair, [](const Vars& in) { return cosine_distance(in[0], in[1], 0); }),
      op("weighted_mean", {{"values", {5, 3}}, {"weights", {5}, 0, 3, DType::i32}},
         [](const Vars& in) { return weighted_mean(in[0], in[1]); }),
  };
}

}  // namespace giro::nn
