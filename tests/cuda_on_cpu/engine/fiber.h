#pragma once

// A function that runs on its own stack and can pause.

#include <cstddef>

namespace giro::simt {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Runs entry(argument) until it pauses or ends. entry must not throw. A paused function resumes where it paused; the
  // arguments are then ignored.
  void run(Entry entry, void* argument);

  // Called on the running fiber: returns to the caller of its run().
  void pause();

  // Abandons a paused function without running the destructors on its stack.
  void abandon() { paused_ = false; }

 private:
  static void begin();
  void leave(bool for_good);

  void* stack_ = nullptr;
  void* stack_pointer_ = nullptr;
  void* caller_stack_pointer_ = nullptr;
  bool paused_ = false;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;

  // AddressSanitizer's bookkeeping for both stacks.
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace giro::simt
