#include "kernels/rules/rules.h"

#include <algorithm>

namespace giro::rules {
namespace {

constexpr Rule kCpu[] = {
    {"drop_unused", drop_unused},
    {"write_in_place", write_in_place},
    {"dense_u8", dense_u8},
    {"fuse_gathers", fuse_gathers},
    {"count_with_publish", count_with_publish},
    {"fuse_expressions", fuse_expressions},
    {"mean_cross_entropy", mean_cross_entropy},
    {"pool_gradient", pool_gradient},
    {"pool_after_relu", pool_after_relu},
    {"write_over_in_leaf", write_over_in_leaf},
};

constexpr Rule kCuda[] = {
    {"drop_unused", drop_unused},
    {"write_in_place", write_in_place},
    {"fuse_gathers", fuse_gathers},
    {"add_in_place", add_in_place},
    {"count_with_publish", count_with_publish},
    {"narrow_dense", narrow_dense},
    {"fuse_expressions", fuse_expressions},
    {"mean_cross_entropy", mean_cross_entropy},
    {"pool_gradient", pool_gradient},
    {"relu_in_convolution", relu_in_convolution},
    {"pool_after_relu", pool_after_relu},
    {"pool_in_convolution", pool_in_convolution},
    {"bias_gradient", bias_gradient},
    {"publish_with_update", publish_with_update},
    {"write_over_in_leaf", write_over_in_leaf},
};

}  // namespace

std::span<const Rule> rules_of(Device device) {
  return device.is_cpu() ? std::span<const Rule>(kCpu) : std::span<const Rule>(kCuda);
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  for (const std::span<const Rule> rules : {std::span<const Rule>(kCuda), std::span<const Rule>(kCpu)}) {
    for (const Rule& rule : rules) {
      if (std::find(names.begin(), names.end(), rule.name) == names.end()) names.push_back(rule.name);
    }
  }
  return names;
}

}  // namespace giro::rules
