#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/state.h>
#include <giro/runtime/tensor.h>

namespace giro {

// A device's measured peak throughput, per second (device_speed in kernels/device_speed.h).
struct DeviceSpeed {
  double bytes = 0;  // read and written
  double flops = 0;
};

// The ops of a recording, in the order in which they were queued, in readable form:
//
//   std::puts(train_step.program(state, batch).text().c_str());
//
//   gather_rows  data/x, %0 -> %1 f32 (6, 4)                            240 B
//   dense        %1, params/kernel, params/bias -> %3 f32 (6, 3)        228 B             162 FLOP
//
// A value is named after the leaf it lies in, or else by a number.
class Program {
 public:
  struct Node {
    // Empty tensors are dropped. By default `bytes` is the size of all other tensors.
    Node(std::string op, std::vector<Tensor> writes, std::vector<Tensor> reads, double flops = 0,
         std::optional<std::int64_t> bytes = {});

    std::string op;
    std::vector<Tensor> writes, reads;  // where the values lie at the replay
    double flops;                       // floating-point operations; 0 if giro does not know
    std::int64_t bytes;                 // read and written
    bool is_op = true;                  // can run by itself; not a collective, or work that giro knows only by name
    std::source_location where;         // the line of the user's program that made it; line() is 0 if unknown
    std::optional<double> seconds;      // for this op by itself, once measured (Step::profile)
    // Names, dtypes and dimensions of its arguments (runtime/program/op_signature.h); empty for expressions.
    std::string_view arguments = {};
  };

  // Measured times of a program: of each op by itself, repeatedly, so that its inputs may be in a cache, and of the
  // whole program as it is replayed.
  struct Times {
    DeviceSpeed speed;
    double replay = 0;  // seconds
  };

  // Its origin: "the step of train.cpp:31", or "a recording".
  const std::string& name() const noexcept { return name_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  double flops() const;
  std::int64_t bytes() const;
  // Bytes of the temporaries: as planned, and the minimum for any plan, which is the most in use at one time. Excludes
  // workspaces of ops, and memory still held after the recording.
  std::size_t memory() const noexcept { return memory_; }
  std::size_t min_memory() const noexcept { return min_memory_; }

  const std::optional<Times>& times() const noexcept { return times_; }
  // The minimum seconds for a node at the speed of times(): for its bytes or for its FLOPs, whichever takes longer. 0
  // without times().
  double floor(const Node& node) const;

  void add(Node node);
  void set_name(std::string name);
  // Error(invalid_argument) unless there is one time for each node.
  void set_times(const std::vector<std::optional<double>>& seconds, const Times& times);
  void set_memory(std::size_t planned, std::size_t least);
  void append(const Program& other);
  // Leaves that give text() and dot() names for memory.
  void set_names(std::vector<Leaf> leaves);

  // One line for each op with its values below it, then the totals and the memory of the temporaries. With times, each
  // op's line also shows its time, its share of all ops, its floor, and its time as a multiple of the floor; one more
  // line describes the replay, and one the device. No line is wider than 120 columns.
  // `with_arguments`: below each op also what it declares of its arguments, such as "x: s(bi), w: s(io) -> y: s(bo)".
  std::string text(bool with_arguments = false) const;
  // A node with its values, and the line of the user's program that made it.
  std::string describe(std::size_t node) const;
  // The program as a graph for Graphviz: an edge for each value that one op writes and another reads.
  std::string dot() const;

 private:
  std::string name_ = "a recording";
  std::optional<Times> times_;
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::size_t memory_ = 0, min_memory_ = 0;
};

}  // namespace giro
