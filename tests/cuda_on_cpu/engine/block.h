#pragma once

// The running block: its threads, shared memory and barrier. One object serves all blocks of all launches.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/engine/thread.h"

namespace giro::simt {

// Thrown by a thread that fails. Ends the launch.
struct Stop {
  Fault fault;
  std::string message;
};

// Throws Stop, with the thread and its place in the message. `site` counts within the kernel's translated file.
[[noreturn]] void stop(const Thread& thread, Fault fault, const std::string& message, std::uint32_t site);

class Block {
 public:
  void begin_launch(const Kernel& kernel, const Launch& launch);

  // Returns the failure, if there was one.
  std::optional<Stop> run(const Dim3& index, std::mt19937_64& random);

  const Kernel& kernel() const { return *kernel_; }
  bool checks_races() const { return checks_races_; }

  std::vector<char>& parameters() { return parameters_; }
  void fail(const Stop& stop) { stop_ = stop; }
  char* shared() { return shared_.get(); }
  std::size_t shared_bytes() const { return shared_bytes_; }
  Shadow& shared_shadow() { return *shared_shadow_; }

  // The allocation that a line of the kernel accessed last. The line's next access usually hits the same one.
  Allocation*& last_allocation(std::uint32_t site) { return last_allocations_[site % last_allocations_.size()]; }

  // Called by a thread: waits for all threads of the block. Returns the number of threads that voted yes.
  std::uint32_t barrier(Thread& thread);

  // Called by a thread: waits until all lanes in the mask of its call have made the same call.
  void meet_warp(Thread& thread);

 private:
  struct FreeShared {
    void operator()(char* memory) const;
  };

  // The lanes of a warp, as masks.
  struct Lanes {
    std::uint32_t waiting = 0;  // in a warp operation
    std::uint32_t exited = 0;
  };

  void run_in_turn();
  void run_together();
  void run_thread(Thread& thread);
  void release_barrier();
  [[noreturn]] void report_deadlock() const;
  std::string describe_thread_positions() const;
  std::uint32_t lanes_of(unsigned int warp) const;

  const Kernel* kernel_ = nullptr;
  Dim3 index_, size_, grid_size_;
  bool checks_races_ = false;
  std::vector<char> parameters_;
  std::unique_ptr<char[], FreeShared> shared_;
  std::size_t shared_bytes_ = 0;
  std::optional<Shadow> shared_shadow_;
  std::array<Allocation*, 64> last_allocations_{};

  std::vector<std::unique_ptr<Thread>> threads_;  // as many as the largest launch so far; the first thread_count_ run
  unsigned int thread_count_ = 0;
  std::vector<Lanes> lanes_;  // one per warp
  std::vector<unsigned int> order_;
  unsigned int alive_ = 0, at_barrier_ = 0;
  std::uint32_t barrier_votes_ = 0;
  std::optional<Stop> stop_;
};

}  // namespace giro::simt
