#include "runtime/used_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace giro::detail {

void UsedStates::add(const std::shared_ptr<const StateIdentity>& identity,
                     const std::vector<std::shared_ptr<Collection>>& collections) {
  auto used = std::ranges::find(used_, identity.get(), &Used::id);  // watching it keeps its address from reuse
  if (used == used_.end()) {
    used = used_.insert(used, {identity.get(), identity->made_in, {identity, identity->owner}, {}});
  }
  for (const auto& collection : collections) {
    auto& kept = used->collections;
    if (std::ranges::find(kept, collection) == kept.end()) kept.push_back(collection);
  }
}

void UsedStates::add(const std::vector<WatchedState>& of_replayed_graph) {
  of_graphs_.insert(of_graphs_.end(), of_replayed_graph.begin(), of_replayed_graph.end());
}

std::string UsedStates::describe(const StreamImpl& stream) const {
  std::string names;
  for (const Used& used : used_) {
    const std::shared_ptr<const StateIdentity> identity = used.state.identity.lock();
    if (!identity || &identity->owner.load()->stream().impl() != &stream) continue;
    std::vector<std::string> collections;
    for (const auto& collection : used.collections) collections.push_back(collection->name());
    names += collections.empty() ? " (a state that has no leaves yet)"
                                 : fmt::format(" (the state of {})", fmt::join(collections, ", "));
  }
  return names;
}

std::vector<WatchedState> UsedStates::watch(std::uint64_t recording, const StateIdentity* main,
                                            std::vector<std::shared_ptr<const void>>& kept) const {
  std::vector<WatchedState> watched = of_graphs_;
  for (const Used& used : used_) {
    const std::shared_ptr<const StateIdentity> identity = used.state.identity.lock();
    if (identity && used.id == main) continue;
    kept.insert(kept.end(), used.collections.begin(), used.collections.end());
    const bool made_here = used.made_in == recording;
    if (made_here && !identity) continue;
    watched.push_back(used.state);
    if (made_here) {
      watched.back().owner = identity->owner;
    } else if (identity && identity->moved_in == recording) {
      watched.back().owner = nullptr;
    }
  }
  return watched;
}

}  // namespace giro::detail
