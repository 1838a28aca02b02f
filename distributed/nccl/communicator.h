#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <giro/runtime/buffer.h>

#include "distributed/communicator_impl.h"
#include "runtime/cuda/handle.h"
#include "runtime/peers.h"

namespace giro::nccl {

// For this process. Once set, destroying a communicator does not wait for the other ranks.
inline std::atomic<bool> peers_abandoned{false};

// Connects GPUs, one per rank. The communicator is non-blocking: no call waits longer than the timeout. Once a
// collective has failed, all communicators of the process are aborted, so that the GPU stops waiting, and all later
// calls fail. Graphs that hold its collectives keep it alive.
class NcclCommunicator final : public detail::CommunicatorImpl,
                               public detail::Peers,
                               public std::enable_shared_from_this<NcclCommunicator> {
 public:
  // Called by all ranks of `host`. Ranks of the same color form a group, ordered by key, then by rank. An error is
  // thrown on every rank.
  static std::shared_ptr<NcclCommunicator> connect(const Communicator& host, Device device,
                                                   std::chrono::milliseconds timeout, int color = 0, int key = 0);
  // Called by `size` ranks that know only the address, host:port, where they meet. If one rank fails, the others wait
  // until the timeout.
  static std::shared_ptr<NcclCommunicator> connect(const std::string& address, int rank, int size, Device device,
                                                   std::chrono::milliseconds timeout);
  ~NcclCommunicator() override;

  void run(const detail::Collective& call, const Stream& stream) override;
  std::shared_ptr<detail::CommunicatorImpl> split(int color, int key) override;

  void check() const override;
  std::shared_ptr<const void> host_wait() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Event = cuda::Handle<cudaEvent_t, cudaEventDestroy>;
  // A collective queued outside of recordings, and an event recorded after it.
  struct Queued {
    const char* name;
    std::size_t bytes;
    Event done;
  };

  static std::shared_ptr<NcclCommunicator> create(const ncclUniqueId& id, int rank, int size, Device device,
                                                  std::chrono::milliseconds timeout);
  NcclCommunicator(int rank, int size, Device device, std::chrono::milliseconds timeout);

  // Starts the thread that checks, until the destructor, whether NCCL reports an error and whether the other ranks keep
  // up. MPI's communicators are checked by the calls that wait for them (mpi/communicator.cpp).
  void start_watchdog();
  void poll() noexcept;

  // With mutex_ locked:
  void finish(ncclResult_t status, const char* name, std::size_t bytes);  // waits for a call in progress
  bool poll_host_waits();
  bool poll_queue();  // false once it is stuck
  void abort(const std::string& why) noexcept;

  void check_usable(const char* name) const;
  std::string describe(const char* name, std::size_t bytes) const;

  const std::chrono::milliseconds timeout_;
  Buffer barrier_buffer_;  // one f32

  std::mutex mutex_;           // held by a call until NCCL is done with it
  ncclComm_t comm_ = nullptr;  // null once it is being aborted
  std::future<void> aborted_;
  std::deque<Queued> queued_;
  Clock::time_point last_progress_{};
  bool is_recorded_ = false;  // graphs hold collectives, which the host cannot observe individually

  std::mutex waits_mutex_;
  int host_waits_ = 0;
  Clock::time_point waits_since_{};

  std::jthread watchdog_;
};

// For tensors in host memory when only the ranks' GPUs can communicate: data is copied to the GPU and back. A call
// waits for the other ranks when its work runs, as on any CPU stream.
class HostCommunicator final : public detail::CommunicatorImpl, public std::enable_shared_from_this<HostCommunicator> {
 public:
  explicit HostCommunicator(std::shared_ptr<detail::CommunicatorImpl> gpus);

  void run(const detail::Collective& call, const Stream& stream) override;
  std::shared_ptr<detail::CommunicatorImpl> split(int color, int key) override;

 private:
  void run_now(detail::Collective call);

  const std::shared_ptr<detail::CommunicatorImpl> gpus_;
  const Stream gpu_stream_;
};

}  // namespace giro::nccl
