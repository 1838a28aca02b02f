#pragma once

#include <memory>
#include <vector>

namespace giro::detail {

// Other processes that the work of a stream waits for, e.g. the ranks of a communicator.
class Peers {
 public:
  virtual ~Peers() = default;
  // Throws once they have failed: the work has then ended, and its results are undefined.
  virtual void check() const = 0;
  // The host begins, or ends, a wait for work that may wait for them.
  virtual void begin_host_wait() noexcept = 0;
  virtual void end_host_wait() noexcept = 0;
};

// The peers of a stream, an event or a graph; destroyed communicators drop out.
class PeerList {
 public:
  void add(const std::weak_ptr<Peers>& peers);
  void add(const PeerList& others);

  // Throws if any have failed.
  void check() const;
  // Runs `wait`, which makes the host wait, and checks afterwards.
  template <class Wait>
  void wait(Wait&& wait) const {
    if (all_.empty()) return wait();
    const HostWait of_host(*this);
    try {
      wait();
    } catch (...) {
      check();  // a device error may only be a result of their failure
      throw;
    }
    check();
  }

 private:
  class HostWait {
   public:
    explicit HostWait(const PeerList& list);
    ~HostWait();
    HostWait(const HostWait&) = delete;
    HostWait& operator=(const HostWait&) = delete;

   private:
    std::vector<std::shared_ptr<Peers>> all_;
  };

  std::vector<std::weak_ptr<Peers>> all_;
};

}  // namespace giro::detail
