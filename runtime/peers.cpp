#include "runtime/peers.h"

#include <algorithm>

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

std::vector<std::shared_ptr<const void>> PeerList::host_wait() const {
  std::vector<std::shared_ptr<const void>> waits;
  for (const auto& each : all_) {
    if (const std::shared_ptr<Peers> peers = each.lock()) waits.push_back(peers->host_wait());
  }
  return waits;
}

}  // namespace giro::detail
