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
  // As long as the result lives, the host waits for work that may wait for them.
  virtual std::shared_ptr<const void> host_wait() = 0;
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
    const auto of_host = host_wait();
    try {
      wait();
    } catch (...) {
      check();  // a device error may only be a result of their failure
      throw;
    }
    check();
  }

 private:
  std::vector<std::shared_ptr<const void>> host_wait() const;

  std::vector<std::weak_ptr<Peers>> all_;
};

}  // namespace giro::detail
