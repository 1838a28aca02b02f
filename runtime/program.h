#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <giro/runtime/state.h>
#include <giro/runtime/tensor.h>

namespace giro {

// What a device does in a second at most, as it was measured (device_speed in kernels/device_speed.h).
struct DeviceSpeed {
  double bytes = 0;  // read and written
  double flops = 0;
};

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
    bool is_op = true;              // can run by itself; not: a collective, or work of which giro knows the name alone
    std::source_location where;     // the line of the user's program that made it; line() is 0 if it is not known
    std::optional<double> seconds;  // that it takes by itself, once that was measured (Step::profile)
  };

  // Of a program that was measured: each op by itself, again and again, so that what it reads may lie in a cache; and
  // all of it as it is replayed.
  struct Times {
    DeviceSpeed speed;
    double replay = 0;  // seconds
  };

  // What has made it: "the step of train.cpp:31", or "a recording".
  const std::string& name() const noexcept { return name_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  double flops() const;
  std::int64_t bytes() const;
  // Bytes of the temporaries: what they were given, and the least that any plan needs, since they hold values at one
  // time. Without what an op needs while it runs, and without what is held on to after the recording.
  std::size_t memory() const noexcept { return memory_; }
  std::size_t least_memory() const noexcept { return least_memory_; }

  const std::optional<Times>& times() const noexcept { return times_; }
  // Seconds that a node takes at least at the speed of times(): for its bytes or for its FLOPs, whichever are more. 0
  // without times().
  double floor(const Node& node) const;

  void add(Node node);
  void set_name(std::string name);
  // Error(invalid_argument) unless there is one for each node.
  void set_times(const std::vector<std::optional<double>>& seconds, const Times& times);
  void set_memory(std::size_t planned, std::size_t least);
  void append(const Program& other);
  // Memory that is known by the names of these leaves, which text() and dot() use.
  void set_names(std::vector<Leaf> leaves);

  // A line for each op, its values below it, then their sum and the memory of the temporaries. With times each op's
  // line goes on with what it takes, its share of all ops, its floor, and how many times that it takes; and there is a
  // line for the replay, and one for the device. No line is wider than 120 columns.
  std::string text() const;
  // A node with its values, and the line of the user's program that made it.
  std::string describe(std::size_t node) const;
  // The same as a graph for Graphviz: an edge for each value that one op writes and another reads.
  std::string dot() const;

 private:
  std::string name_ = "a recording";
  std::optional<Times> times_;
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::size_t memory_ = 0, least_memory_ = 0;
};

}  // namespace giro
