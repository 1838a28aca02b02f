#include <giro/runtime/program/program.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <string_view>
#include <utility>

#include "runtime/call_site.h"
#include "runtime/program/overlap.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// The leaf that the memory lies in. If it spans several, e.g. a whole collection, the common prefix of their paths.
std::string leaf_name(const std::vector<Leaf>& leaves, const Tensor& tensor) {
  std::string name;
  for (const Leaf& leaf : leaves) {
    if (!detail::overlap(leaf.value, tensor)) continue;
    if (name.empty()) name = leaf.path;
    while (leaf.path != name && !leaf.path.starts_with(name + "/")) {
      const std::size_t slash = name.rfind('/');
      if (slash == name.npos) return "";
      name.resize(slash);
    }
  }
  return name;
}

// The values of a program, and which op wrote the value that another op reads.
class Values {
 public:
  struct Value {
    std::string name;
    std::optional<std::size_t> writer;  // op; none: it existed before
    Tensor tensor;
  };

  explicit Values(const std::vector<Leaf>& leaves) : leaves_(leaves) {}

  Value read(const Tensor& tensor) {
    std::string name = leaf_name(leaves_, tensor);
    for (const Value& last : values_ | std::views::reverse) {
      if (detail::overlap(last.tensor, tensor)) return {name.empty() ? last.name : name, last.writer, tensor};
    }
    if (name.empty()) name = fmt::format("in{}", inputs_++);
    return values_.emplace_back(Value{name, std::nullopt, tensor});
  }
  std::string write(const Tensor& tensor, std::size_t op) {
    std::string name = leaf_name(leaves_, tensor);
    if (name.empty()) name = fmt::format("%{}", numbers_++);
    std::erase_if(values_, [&](const Value& other) {
      return other.tensor.place() == tensor.place() && other.tensor.bytes() <= tensor.bytes();
    });
    return values_.emplace_back(Value{name, op, tensor}).name;
  }

 private:
  const std::vector<Leaf>& leaves_;
  std::vector<Value> values_;  // the latest last
  std::size_t numbers_ = 0, inputs_ = 0;
};

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

}  // namespace

Program::Node::Node(std::string name, std::vector<Tensor> written, std::vector<Tensor> read, double operations,
                    std::optional<std::int64_t> touched)
    : op(std::move(name)),
      writes(std::move(written)),
      reads(std::move(read)),
      flops(operations),
      bytes(0),
      where(detail::CallSite::where()) {
  for (auto* arguments : {&writes, &reads}) {
    std::erase_if(*arguments, [](const Tensor& tensor) { return !tensor; });
  }
  if (touched) {
    bytes = *touched;
    return;
  }
  for (const auto* arguments : {&writes, &reads}) {
    for (const Tensor& tensor : *arguments) bytes += static_cast<std::int64_t>(tensor.bytes());
  }
}

double Program::flops() const {
  return std::accumulate(nodes_.begin(), nodes_.end(), 0.0,
                         [](double sum, const Node& node) { return sum + node.flops; });
}

std::int64_t Program::bytes() const {
  return std::accumulate(nodes_.begin(), nodes_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Node& node) { return sum + node.bytes; });
}

void Program::add(Node node) { nodes_.push_back(std::move(node)); }

void Program::set_memory(std::size_t planned, std::size_t least) {
  memory_ = std::max(memory_, planned);
  min_memory_ = std::max(min_memory_, least);
}

void Program::set_name(std::string name) { name_ = std::move(name); }

void Program::set_times(const std::vector<std::optional<double>>& seconds, const Times& times) {
  if (seconds.size() != nodes_.size()) {
    throw_invalid("set_times: {} times, expected one for each of {} nodes", seconds.size(), nodes_.size());
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) nodes_[i].seconds = seconds[i];
  times_ = times;
}

double Program::floor(const Node& node) const {
  if (!times_) return 0;
  return std::max(static_cast<double>(node.bytes) / times_->speed.bytes, node.flops / times_->speed.flops);
}

void Program::set_names(std::vector<Leaf> leaves) { leaves_ = std::move(leaves); }

void Program::append(const Program& other) {
  nodes_.insert(nodes_.end(), other.nodes_.begin(), other.nodes_.end());
  set_memory(other.memory_, other.min_memory_);
}

namespace {

// The values that a node reads and writes, one word each, given the nodes before it.
std::vector<std::string> arguments(Values& values, const Program::Node& node, std::size_t i) {
  std::vector<std::string> words;
  for (const Tensor& tensor : node.reads) {
    if (!words.empty()) words.back() += ',';
    words.push_back(values.read(tensor).name);
  }
  for (const Tensor& tensor : node.writes) {
    if (&tensor != &node.writes.front()) words.back() += ',';
    words.push_back((&tensor == &node.writes.front() ? "-> " : "") + values.write(tensor, i) + " " + described(tensor));
  }
  return words;
}

constexpr std::size_t kColumns = 120, kIndent = 4;  // of a terminal; of continuation lines

// Puts the words on indented lines, none wider than a terminal.
std::string indented(const std::vector<std::string>& words) {
  constexpr std::size_t kRoom = kColumns - kIndent;
  std::string text, line;
  const auto end_line = [&] {
    if (!line.empty()) text += std::string(kIndent, ' ') + std::exchange(line, "") + '\n';
  };
  for (std::string_view word : words) {
    if (!line.empty() && line.size() + 1 + word.size() > kRoom) end_line();
    for (; word.size() > kRoom; word.remove_prefix(kRoom)) line = word.substr(0, kRoom), end_line();
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  end_line();
  return text;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const auto word : std::views::split(text, ' ')) words.emplace_back(word.begin(), word.end());
  return words;
}

std::string microseconds(double seconds) { return fmt::format("{:.2f} us", 1e6 * seconds); }

// The time as a multiple of its floor.
std::string times_floor(double seconds, double floor) {
  return floor > 0 ? fmt::format("{:.1f} x", seconds / floor) : "";
}

}  // namespace

std::string Program::text(bool with_arguments) const {
  constexpr std::size_t kMaxOpWidth = 28;  // leaves room for the numbers
  const std::string total = fmt::format("total of {} ops", nodes_.size());
  std::size_t op_width = std::min(total.size(), kMaxOpWidth);
  double all = 0, floors = 0;
  for (const Node& node : nodes_) {
    op_width = std::max(op_width, std::min(node.op.size(), kMaxOpWidth));
    all += node.seconds.value_or(0);
    floors += node.seconds ? floor(node) : 0;
  }
  const auto times_of = [&](double seconds, double least) {
    return fmt::format("  {:>12}  {:>5.1f} %  floor {:>12}  {:>8}", microseconds(seconds),
                       all > 0 ? 100 * seconds / all : 0, microseconds(least), times_floor(seconds, least));
  };
  std::string text;
  const auto add_line = [&](const std::string& op, const std::string& times, double flops, std::int64_t bytes) {
    const bool fits = op.size() <= op_width;
    if (!fits) text += op.substr(0, kColumns) + '\n';
    text += fmt::format("{:<{}}  {:>12} B", fits ? op : "", op_width, bytes);
    if (flops > 0) text += fmt::format("  {:>14.0f} FLOP", flops);
    if (flops <= 0 && !times.empty()) text += std::string(2 + 14 + 5, ' ');
    text += times + '\n';
  };
  Values values(leaves_);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::string times;
    if (times_) times = node.seconds ? times_of(*node.seconds, floor(node)) : "  not measured: not an op of giro";
    add_line(node.op, times, node.flops, node.bytes);
    text += indented(arguments(values, node, i));
    if (with_arguments && !node.arguments.empty()) text += indented(words_of(node.arguments));
  }
  add_line(total, times_ ? times_of(all, floors) : "", flops(), bytes());
  if (memory_ > 0) text += fmt::format("temporaries: {} B, at least {} B at one time\n", memory_, min_memory_);
  if (times_) {
    text += fmt::format("replayed as a whole: {}, floor {}, {}\n", microseconds(times_->replay), microseconds(floors),
                        times_floor(times_->replay, floors));
    text += fmt::format("measured on this device: {:.1f} GB/s copied, {:.1f} GFLOP/s in an f32 matrix product\n",
                        1e-9 * times_->speed.bytes, 1e-9 * times_->speed.flops);
  }
  return text;
}

std::string Program::describe(std::size_t index) const {
  Values values(leaves_);
  for (std::size_t i = 0; i < index; ++i) (void)arguments(values, nodes_.at(i), i);
  const Node& node = nodes_.at(index);
  std::string text = fmt::format("{} {}", node.op, fmt::join(arguments(values, node, index), " "));
  if (node.where.line() != 0) text += fmt::format(" (called at {}:{})", node.where.file_name(), node.where.line());
  return text;
}

std::string Program::dot() const {
  Values values(leaves_);
  std::string text = "digraph program {\n  node [shape=box];\n";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::string edges;
    for (const Tensor& tensor : node.reads) {
      const Values::Value value = values.read(tensor);
      const std::string label = fmt::format("[label=\"{}\\n{}\"]", value.name, described(tensor));
      if (value.writer) {
        edges += fmt::format("  op{} -> op{} {};\n", *value.writer, i, label);
      } else {
        edges += fmt::format("  \"{0}\" [shape=ellipse];\n  \"{0}\" -> op{1} {2};\n", value.name, i, label);
      }
    }
    for (const Tensor& tensor : node.writes) values.write(tensor, i);
    std::string times;
    if (node.seconds) {
      times = fmt::format("\\n{}, floor {}, {}", microseconds(*node.seconds), microseconds(floor(node)),
                          times_floor(*node.seconds, floor(node)));
    }
    text += fmt::format("  op{} [label=\"{}\\n{} B, {:.0f} FLOP{}\"];\n{}", i, node.op, node.bytes, node.flops, times,
                        edges);
  }
  return text + "}\n";
}

}  // namespace giro
