#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace giro::nccl {

// Periodically checks every communicator of the process, on its own thread, which ends with the last communicator.
// MPI's are checked by the calls that wait for them (mpi/communicator.cpp).
class Watchdog {
 public:
  class Watched {
   public:
    virtual ~Watched() = default;
    virtual void poll() noexcept = 0;
  };

  static std::shared_ptr<Watchdog> instance();
  ~Watchdog();

  void add(Watched& watched);
  // Waits for a poll() in progress; none happens afterwards.
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
