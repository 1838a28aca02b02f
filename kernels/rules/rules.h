#pragma once

#include <cstddef>
#include <span>

namespace giro::rules {

class OpList;

// A rewrite of a program's ops. Rules keep every result bit for bit, except add_in_place: its last bits may differ,
// because the library adds the existing values while it computes the product.
struct Rule {
  enum class Backend { any, cpu, cuda };

  const char* name;
  // Tries to apply the rule to ops starting with `i`. Returns whether the program has changed.
  bool (*apply)(OpList& ops, std::size_t i);
  Backend backend = Backend::any;  // that has it
};

// All rules, in the order in which they are tried.
std::span<const Rule> rules();

bool drop_unused(OpList& ops, std::size_t i);
bool write_in_place(OpList& ops, std::size_t i);
bool write_over_in_leaf(OpList& ops, std::size_t i);
bool fuse_gathers(OpList& ops, std::size_t i);
bool count_with_publish(OpList& ops, std::size_t i);
bool fuse_expressions(OpList& ops, std::size_t i);
bool mean_cross_entropy(OpList& ops, std::size_t i);
bool pool_gradient(OpList& ops, std::size_t i);
bool pool_after_relu(OpList& ops, std::size_t i);
bool dense_u8(OpList& ops, std::size_t i);
bool add_in_place(OpList& ops, std::size_t i);
bool narrow_dense(OpList& ops, std::size_t i);
bool relu_in_convolution(OpList& ops, std::size_t i);
bool pool_in_convolution(OpList& ops, std::size_t i);
bool bias_gradient(OpList& ops, std::size_t i);
bool publish_with_update(OpList& ops, std::size_t i);

}  // namespace giro::rules
