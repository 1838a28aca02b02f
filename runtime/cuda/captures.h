#pragma once

#include <memory>
#include <mutex>

namespace giro::cuda {

struct StreamHandles;

// Counts the captures in progress in all threads. Closing a library waits for the whole device, which would break a
// capture, so handles released during a capture are closed when the last capture has ended.
class Captures {
 public:
  static Captures& instance();

  void begin();
  void end() noexcept;
  void close(std::unique_ptr<StreamHandles> handles) noexcept;

 private:
  std::mutex mutex_;
  int num_active_ = 0;
  std::unique_ptr<StreamHandles> waiting_;  // head of a list
};

}  // namespace giro::cuda
