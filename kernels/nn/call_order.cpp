#include "kernels/nn/call_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <tuple>

#include <giro/kernels/nn/call_place.h>

namespace giro::nn {

void CallGroup::close() {
  if (calls.size() < 2) return;
  const auto place = [&](std::size_t i) {
    const std::source_location& where = calls[i].where;
    return std::tuple(std::string_view(where.file_name()), where.line(), where.column());
  };
  const auto takes = [&](std::size_t i, std::size_t other) { return std::ranges::count(calls[i].inputs, other) > 0; };
  std::vector<std::size_t> by_place(calls.size()), ordered;
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  std::ranges::stable_sort(by_place, {}, place);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (calls[k].key != calls[i].key || place(k) != place(i) || takes(i, k)) continue;
      const std::source_location& where = calls[i].where;
      order->unclear = fmt::format("two calls of '{}' in one expression have one place, {}:{}",
                                   calls[i].key.substr(calls[i].key.find('\n') + 1), where.file_name(), where.line());
    }
  }
  std::vector<bool> is_input(calls.size()), is_ordered(calls.size());
  for (const Call& call : calls) {
    for (const std::size_t input : call.inputs) is_input[input] = true;
  }
  const auto add = [&](const auto& self, std::size_t i) -> void {
    if (is_ordered[i]) return;
    is_ordered[i] = true;
    for (const std::size_t other : by_place) {
      if (takes(i, other)) self(self, other);
    }
    ordered.push_back(i);
  };
  for (const std::size_t i : by_place) {
    if (!is_input[i]) add(add, i);
  }
  if (const auto all = declared.lock()) {
    std::vector<DeclaredLeaf> leaves;
    for (const std::size_t i : ordered) {
      const std::size_t end = i + 1 < calls.size() ? calls[i + 1].first_leaf : all->size();
      for (std::size_t leaf = calls[i].first_leaf; leaf < end; ++leaf) leaves.push_back(std::move((*all)[leaf]));
    }
    std::ranges::move(leaves, all->end() - static_cast<std::ptrdiff_t>(leaves.size()));
  }
  if (order->is_known) return;
  std::map<std::string, std::vector<int>> given;  // the numbers that the calls of one name have together
  for (const Call& call : calls) given[call.key].push_back(call.number);
  std::map<std::string, std::size_t> next;
  for (auto& [key, numbers] : given) std::ranges::sort(numbers);
  for (const std::size_t i : ordered) {
    const Call& call = calls[i];
    const int number = given[call.key][next[call.key]++];
    if (number != call.number) order->numbers[{call.key, call.number}] = number;
  }
}

void CallPlace::leave() const {
  if (group_.get() != nullptr && --group_->open == 0) group_->close();
}

}  // namespace giro::nn
