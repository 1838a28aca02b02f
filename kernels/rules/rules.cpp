#include "kernels/rules/rules.h"

namespace giro::rules {

std::span<const Rule> rules() {
  using enum Rule::Backend;
  static constexpr Rule kRules[] = {
      {"drop_unused", drop_unused},
      {"write_in_place", write_in_place},
      {"dense_u8", dense_u8, cpu},
      {"fuse_gathers", fuse_gathers},
      {"add_in_place", add_in_place, cuda},
      {"count_with_publish", count_with_publish},
      {"narrow_dense", narrow_dense, cuda},
      {"fuse_expressions", fuse_expressions},
      {"mean_cross_entropy", mean_cross_entropy},
      {"pool_gradient", pool_gradient},
      {"relu_in_convolution", relu_in_convolution, cuda},
      {"pool_after_relu", pool_after_relu},
      {"pool_in_convolution", pool_in_convolution, cuda},
      {"bias_gradient", bias_gradient, cuda},
      {"publish_with_update", publish_with_update, cuda},
      {"write_over_in_leaf", write_over_in_leaf},
  };
  return kRules;
}

}  // namespace giro::rules
