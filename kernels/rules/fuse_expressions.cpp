#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expr/fusion.h"
#include "kernels/expr/term.h"
#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

std::string joined_name(const std::string& a, const std::string& b) {
  constexpr std::size_t kLongest = 80;
  if (a.ends_with("...") || a.size() + 1 + b.size() > kLongest) return a.ends_with("...") ? a : a + "+...";
  return a + "+" + b;
}

// Where an expression's values lie.
expr::MemoryOf memory_of(const OpList& ops) {
  return [&ops](const Tensor& value) { return ops.placed(value); };
}

// Fuses ops i < j into one where possible, and returns its index. Values that nothing else reads are not stored.
std::optional<std::size_t> fuse_pair(OpList& ops, std::size_t i, std::size_t j) {
  const expr::Expression &first = *expression_of(ops[i]), &second = *expression_of(ops[j]);
  const bool late = ops.can_run_late(i, j);
  if (!late && !ops.can_run_early(j, i)) return std::nullopt;
  if (ops.reads_as_part(j, i)) return std::nullopt;
  std::optional<expr::Fused> fused = expr::fuse(first, second, memory_of(ops));
  if (!fused) return std::nullopt;
  bool is_stored = false;
  for (const expr::Expression::Write& write : first.writes) {
    if (ops.only_reader(i, write.to.memory) == j) {
      fused->expression = expr::without_write(fused->expression, write.to.memory);
    } else {
      is_stored = true;
    }
  }
  if (fused->repeats_producer && is_stored) return std::nullopt;
  const auto [kept, gone] = late ? std::pair(j, i) : std::pair(i, j);
  ops.replace(kept, joined_name(ops[i].node.op, ops[j].node.op), std::move(fused->expression), {gone});
  return kept;
}

// The bytes of the distinct elements that are read or written.
double bytes_of(const expr::Access& access, const Shape& space) {
  auto bytes = static_cast<double>(size_of(access.memory.dtype()));
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    if (access.layout.strides[axis] != 0) bytes *= static_cast<double>(space.begin()[axis]);
  }
  return bytes;
}

// Whether this is the mean of a cross-entropy's losses or of correct rows, which mean_cross_entropy needs to match.
bool is_mean_of_rows(const OpList& ops, std::size_t i) {
  const std::optional<Computed> mean = mean_of(ops[i]);
  if (!mean) return false;
  const auto writer = ops.writer(mean->in);
  return writer &&
         (detail::op_of<ops::SoftmaxCrossEntropy>(ops[*writer]) != nullptr || ops[*writer].node.op == "correct");
}

// Recomputes a few instructions in each reader if that moves fewer bytes than storing their value: a gradient reads x
// and its row's mean, which the forward pass keeps, instead of their difference.
bool recompute_in_readers(OpList& ops, std::size_t i) {
  const expr::Expression* const producer = expression_of(ops[i]);
  if (producer == nullptr || producer->code.size() > expr::kMaxRecomputed || producer->reduced > 0 ||
      producer->writes.size() != 1 || is_mean_of_rows(ops, i)) {
    return false;
  }
  const expr::Access& value = producer->writes.front().to;
  const auto readers = ops.readers(i, value.memory);
  if (!readers || readers->empty()) return false;
  double stored = bytes_of(value, producer->space) * static_cast<double>(readers->size()), repeated = 0;
  for (const expr::Access& read : producer->reads) stored += bytes_of(read, producer->space);
  for (const std::size_t j : *readers) {
    const expr::Expression* const reader = expression_of(ops[j]);
    if (reader == nullptr) return false;
    for (const expr::Access& read : producer->reads) {
      if (!ops.is_unchanged(read.memory, i, j)) return false;
      const bool is_read_anyway =
          std::any_of(reader->reads.begin(), reader->reads.end(),
                      [&](const expr::Access& other) { return other.memory.place() == read.memory.place(); });
      if (!is_read_anyway) repeated += bytes_of(read, producer->space);
    }
  }
  if (repeated >= stored) return false;
  std::vector<expr::Expression> with_it;
  for (const std::size_t j : *readers) {
    const auto fused = expr::fuse(*producer, *expression_of(ops[j]), memory_of(ops));
    if (!fused) return false;
    with_it.push_back(expr::without_write(fused->expression, value.memory));
  }
  for (std::size_t k = 0; k < readers->size(); ++k) {
    const std::size_t j = (*readers)[k];
    ops.replace(j, joined_name(ops[i].node.op, ops[j].node.op), std::move(with_it[k]));
  }
  ops.drop(i);
  return true;
}

// The ops after i that read one of these arrays, in order.
std::vector<std::size_t> later_readers(const OpList& ops, std::size_t i, const std::vector<Tensor>& arrays,
                                       std::int64_t min_count) {
  std::vector<std::size_t> readers;
  for (const Tensor& array : arrays) {
    if (array.count() < min_count) continue;
    for (const std::size_t k : ops.users(array)) {
      if (k > i && std::ranges::find(ops.reads(k), array.place(), &Tensor::place) != ops.reads(k).end()) {
        readers.push_back(k);
      }
    }
  }
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

// Fuses op `i` with the first of the related later ops that can join it, and returns the result's index.
std::optional<std::size_t> fuse_with_first(OpList& ops, std::size_t i, const std::vector<std::size_t>& related) {
  if (expression_of(ops[i]) == nullptr || is_mean_of_rows(ops, i)) return std::nullopt;
  for (const std::size_t j : related) {
    if (expression_of(ops[j]) == nullptr) continue;
    if (const auto one = fuse_pair(ops, i, j)) return one;
  }
  return std::nullopt;
}

// Fuses op `i` with all ops that can join it.
void join(OpList& ops, std::size_t i, bool joins_siblings) {
  for (std::optional<std::size_t> at = i; at && !recompute_in_readers(ops, *at);) {
    i = *at;
    at = fuse_with_first(ops, i, later_readers(ops, i, ops.writes(i), 1));
    if (!at && joins_siblings) at = fuse_with_first(ops, i, later_readers(ops, i, ops.reads(i), 2));
  }
}

// Whether the op depends only on single numbers, such as the gradient of a loss with respect to itself.
bool is_one_number(const detail::HeldOp& op) {
  const expr::Expression* const expression = expression_of(op);
  return expression != nullptr && expression->places.empty() &&
         std::all_of(expression->reads.begin(), expression->reads.end(),
                     [](const expr::Access& read) { return read.memory.count() == 1; });
}

}  // namespace

// Fuses expressions with readers of their results, and then with readers of the same arrays. Single numbers are moved
// into their readers first, where that pays. The search runs from the last op to the first, so that values that only a
// gradient needs are computed with the gradient, not in the forward pass.
bool fuse_expressions(OpList& ops, std::size_t i) {
  if (i > 0) return false;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (is_one_number(ops[k])) recompute_in_readers(ops, k);
  }
  for (const bool joins_siblings : {false, true}) {
    for (std::size_t k = ops.size(); k-- > 0;) join(ops, k, joins_siblings);
  }
  return false;
}

}  // namespace giro::rules
