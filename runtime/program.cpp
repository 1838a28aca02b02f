#include <giro/runtime/program.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/internal/overlap.h"

namespace giro {
namespace {

// The leaf that memory lies in; of several, as where an op takes a whole collection, what their paths begin with.
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

// The values of a program: which op has written what another reads.
class Values {
 public:
  struct Value {
    std::string name;
    std::optional<std::size_t> writer;  // op; none: it was there before
  };

  explicit Values(const std::vector<Leaf>& leaves) : leaves_(leaves) {}

  Value read(const Tensor& tensor) {
    std::string name = leaf_name(leaves_, tensor);
    for (auto written = written_.rbegin(); written != written_.rend(); ++written) {
      if (detail::overlap(written->tensor, tensor))
        return {name.empty() ? written->value.name : name, written->value.writer};
    }
    if (name.empty()) name = fmt::format("in{}", inputs_++);
    written_.push_back({tensor, {name, std::nullopt}});
    return written_.back().value;
  }
  std::string write(const Tensor& tensor, std::size_t op) {
    std::string name = leaf_name(leaves_, tensor);
    if (name.empty()) name = fmt::format("%{}", numbers_++);
    std::erase_if(written_, [&](const Written& other) {
      return other.tensor.raw() == tensor.raw() && other.tensor.bytes() <= tensor.bytes();
    });
    written_.push_back({tensor, {name, op}});
    return name;
  }

 private:
  struct Written {
    Tensor tensor;
    Value value;
  };
  const std::vector<Leaf>& leaves_;
  std::vector<Written> written_;  // the latest last
  std::size_t numbers_ = 0, inputs_ = 0;
};

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

}  // namespace

Program::Node::Node(std::string name, std::vector<Tensor> written, std::vector<Tensor> read, double operations,
                    std::optional<std::int64_t> touched)
    : op(std::move(name)), writes(std::move(written)), reads(std::move(read)), flops(operations), bytes(0) {
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
  least_memory_ = std::max(least_memory_, least);
}

void Program::set_names(std::vector<Leaf> leaves) { leaves_ = std::move(leaves); }

void Program::append(const Program& other) {
  nodes_.insert(nodes_.end(), other.nodes_.begin(), other.nodes_.end());
  set_memory(other.memory_, other.least_memory_);
}

std::string Program::text() const {
  struct Line {
    std::string op, values;
    const Node* node;
  };
  Values values(leaves_);
  std::vector<Line> lines;
  std::size_t op_width = 5, value_width = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::vector<std::string> reads, writes;
    for (const Tensor& tensor : node.reads) reads.push_back(values.read(tensor).name);
    for (const Tensor& tensor : node.writes) writes.push_back(values.write(tensor, i) + " " + described(tensor));
    std::string text = fmt::format("{}", fmt::join(reads, ", "));
    if (!writes.empty()) text += fmt::format("{}-> {}", text.empty() ? "" : " ", fmt::join(writes, ", "));
    lines.push_back({node.op, std::move(text), &node});
    op_width = std::max(op_width, lines.back().op.size());
    value_width = std::max(value_width, lines.back().values.size());
  }
  std::string text;
  const auto line = [&](const std::string& op, const std::string& what, std::int64_t bytes, double flops) {
    text += fmt::format("{:<{}}  {:<{}}  {:>12} B", op, op_width, what, value_width, bytes);
    if (flops > 0) text += fmt::format("  {:>14.0f} FLOP", flops);
    text += '\n';
  };
  for (const Line& one : lines) line(one.op, one.values, one.node->bytes, one.node->flops);
  line("total", fmt::format("{} ops", nodes_.size()), bytes(), flops());
  if (memory_ > 0) text += fmt::format("temporaries: {} B, at least {} B at one time\n", memory_, least_memory_);
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
    text += fmt::format("  op{} [label=\"{}\\n{} B, {:.0f} FLOP\"];\n{}", i, node.op, node.bytes, node.flops, edges);
  }
  return text + "}\n";
}

}  // namespace giro
