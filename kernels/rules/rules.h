#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <giro/runtime/device.h>

namespace giro::rules {

class OpList;

// A rewrite of a program's ops. Rules keep every result bit for bit, except add_in_place: its last bits may differ,
// because the library adds the existing values while it computes the product.
struct Rule {
  const char* name;
  // Tries to apply the rule to ops starting with `i`. Returns whether the program has changed.
  bool (*apply)(OpList& ops, std::size_t i);
};

bool drop_unused(OpList& ops, std::size_t i);
bool write_in_place(OpList& ops, std::size_t i);
bool write_over_in_leaf(OpList& ops, std::size_t i);
bool fuse_gathers(OpList& ops, std::size_t i);
bool count_with_publish(OpList& ops, std::size_t i);
bool fuse_expressions(OpList& ops, std::size_t i);
bool mean_cross_entropy(OpList& ops, std::size_t i);
bool pool_gradient(OpList& ops, std::size_t i);
bool pool_after_relu(OpList& ops, std::size_t i);

// For one backend only.
bool dense_u8(OpList& ops, std::size_t i);
bool add_in_place(OpList& ops, std::size_t i);
bool narrow_dense(OpList& ops, std::size_t i);
bool relu_in_convolution(OpList& ops, std::size_t i);
bool pool_in_convolution(OpList& ops, std::size_t i);
bool bias_gradient(OpList& ops, std::size_t i);
bool publish_with_update(OpList& ops, std::size_t i);

// The rules of the device's backend, in the order in which they are tried.
std::span<const Rule> rules_of(Device device);
// The names of the rules of all backends.
std::vector<std::string_view> rule_names();

}  // namespace giro::rules
