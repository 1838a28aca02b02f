#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/state.h>
#include <giro/runtime/tensor.h>

namespace giro {

// What a recording does: its ops, in the order in which they were queued. For people to read:
//
//   std::puts(train_step.program(state, batch).text().c_str());
//
//   gather_rows  data/x, %0 -> %1 f32 (6, 4)                            240 B
//   dense        %1, params/kernel, params/bias -> %3 f32 (6, 3)        228 B             162 FLOP
//
// A value is named by the leaf that it lies in, or else by a number.
class Program {
 public:
  struct Node {
    // Arguments that are not there are left out. `bytes` are by default those of all the others.
    Node(std::string op, std::vector<Tensor> writes, std::vector<Tensor> reads, double flops = 0,
         std::optional<std::int64_t> bytes = {});

    std::string op;
    std::vector<Tensor> writes, reads;  // where the values lie at the replay
    double flops;                       // floating-point operations; of what giro does not know 0
    std::int64_t bytes;                 // read and written
  };

  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  double flops() const;
  std::int64_t bytes() const;
  // Bytes of the temporaries: what they were given, and the least that any plan needs, since they hold values at one
  // time. Without what an op needs while it runs, and without what is held on to after the recording.
  std::size_t memory() const noexcept { return memory_; }
  std::size_t least_memory() const noexcept { return least_memory_; }

  void add(Node node);
  void set_memory(std::size_t planned, std::size_t least);
  void append(const Program& other);
  // Memory that is known by the names of these leaves, which text() and dot() use.
  void set_names(std::vector<Leaf> leaves);

  // A line for each op, one for their sum, and one for the memory of the temporaries.
  std::string text() const;
  // The same as a graph for Graphviz: an edge for each value that one op writes and another reads.
  std::string dot() const;

 private:
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::size_t memory_ = 0, least_memory_ = 0;
};

}  // namespace giro
