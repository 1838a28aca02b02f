#include "runtime/program/memory_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/arena.h"
#include "runtime/backend.h"

namespace giro::detail {
namespace {

struct LargestView {
  Tensor tensor;
  std::string op;  // the op that writes it
};

std::string size_text(std::size_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", 1e-3 * static_cast<double>(bytes));
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes));
  return fmt::format("{:.1f} GB", 1e-9 * static_cast<double>(bytes));
}

// For an out-of-memory error: the memory that the recording has needed so far, and the free memory of its device.
std::string memory_report(const Recording& recording, const std::string& name) {
  std::map<const void*, LargestView> values;  // temporaries by address; the largest of several views
  const auto is_temporary = [&](const Tensor& tensor) {
    const auto lies_in = [&](const auto& each) { return each.second->holds(tensor.place()); };
    return recording.trace->holds(tensor.place()) || std::ranges::any_of(recording.arenas, lies_in);
  };
  const auto look_at = [&](const Tensor& tensor, const std::string& op) {
    if (!is_temporary(tensor)) return;
    const auto [at, is_new] = values.try_emplace(tensor.place(), LargestView{tensor, op});
    if (!is_new && at->second.tensor.bytes() < tensor.bytes()) at->second = {tensor, op};
  };
  for (const Program::Node& node : recording.owned.program.nodes()) {
    for (const Tensor& tensor : node.writes) look_at(tensor, node.op);
  }
  for (const HeldOp& op : recording.held()) {
    op.call->for_each([&](const Tensor& tensor, Use use) {
      if (tensor && use != Use::read) look_at(tensor, op.node.op);
    });
  }

  std::vector<LargestView> largest;
  for (const auto& [address, value] : values) largest.push_back(value);
  std::ranges::stable_sort(largest, std::ranges::greater(),
                           [](const LargestView& value) { return value.tensor.bytes(); });
  constexpr std::size_t kShown = 4;
  if (largest.size() > kShown) largest.resize(kShown);
  std::vector<std::string> shown;
  for (const auto& [tensor, op] : largest) {
    shown.push_back(fmt::format("{} {} of {} ({})", name_of(tensor.dtype()), to_string(tensor.shape()), op,
                                size_text(tensor.bytes())));
  }

  std::size_t bytes = 0;
  for (const auto& [address, value] : values) bytes += value.tensor.bytes();
  std::string text = fmt::format("{}, as far as it has been recorded, has {} temporaries of {} in total", name,
                                 values.size(), size_text(bytes));
  if (recording.owned.program.memory() > 0) {
    text += fmt::format(", which need {} together (at most {} at any one time)",
                        size_text(recording.owned.program.memory()), size_text(recording.owned.program.min_memory()));
  }
  if (!shown.empty()) text += fmt::format(", the largest {}", fmt::join(shown, ", "));
  text += fmt::format("; workspaces of up to {}", size_text(recording.largest_workspace));
  const Device device = recording.stream.device;
  if (const auto free = device.is_cuda() ? cuda::free_memory(device) : cpu::free_memory())
    text += fmt::format("; {} has {} free", to_string(device), size_text(*free));
  return text;
}

}  // namespace

Error with_memory_report(const Error& error, const Recording& recording, const std::string& name) {
  return {error.code(), fmt::format("{}; {}", error.what(), memory_report(recording, name)), error.where()};
}

}  // namespace giro::detail
