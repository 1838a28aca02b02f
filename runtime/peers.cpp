#include "runtime/peers.h"

#include <algorithm>
#include <utility>

namespace giro::detail {

void PeerList::add(const std::weak_ptr<Peers>& peers) {
  const auto same = [&](const std::weak_ptr<Peers>& other) {
    return !peers.owner_before(other) && !other.owner_before(peers);
  };
  if (std::any_of(all_.begin(), all_.end(), same)) return;
  std::erase_if(all_, [](const std::weak_ptr<Peers>& other) { return other.expired(); });
  all_.push_back(peers);
}

void PeerList::add(const PeerList& others) {
  for (const auto& peers : others.all_) add(peers);
}

void PeerList::check() const {
  for (const auto& each : all_) {
    if (const std::shared_ptr<Peers> peers = each.lock()) peers->check();
  }
}

PeerList::HostWait::HostWait(const PeerList& list) {
  for (const auto& each : list.all_) {
    std::shared_ptr<Peers> peers = each.lock();
    if (!peers) continue;
    peers->begin_host_wait();
    all_.push_back(std::move(peers));
  }
}

PeerList::HostWait::~HostWait() {
  for (const auto& peers : all_) peers->end_host_wait();
}

}  // namespace giro::detail
