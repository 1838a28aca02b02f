#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace giro::nccl {

// Looks at every communicator of the process from time to time, on a thread of its own, which ends with the last one.
class Watchdog {
 public:
  class Watched {
   public:
    virtual ~Watched() = default;
    virtual void look() noexcept = 0;
  };

  static std::shared_ptr<Watchdog> of_process();
  ~Watchdog();

  void add(Watched& watched);
  // Waits for a look that is under way; there is none afterwards.
  void remove(Watched& watched) noexcept;

 private:
  Watchdog();
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched*> all_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace giro::nccl
