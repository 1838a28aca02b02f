#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/state.h>

namespace giro::detail {

class StreamImpl;

// Stays with a state's leaves when the state is moved.
struct StateIdentity {
  StateIdentity(const State* owner, std::uint64_t made_in) : owner(owner), made_in(made_in) {}

  mutable std::atomic<const State*> owner;         // the object that has the leaves now
  mutable std::atomic<std::uint64_t> moved_in{0};  // the recording during which they last moved, or 0
  const std::uint64_t made_in;                     // the recording during which the state was made, or 0
  mutable std::vector<State::Declared> declared{};
};

// A state that recorded work uses. While it is there, a replay does what the recorded function would do.
struct WatchedState {
  std::weak_ptr<const StateIdentity> identity;
  const State* owner;  // null: it moved during the recording

  bool is_valid() const {
    const std::shared_ptr<const StateIdentity> state = identity.lock();
    return state && state->owner == owner;
  }
};

// The states used while a recording is made. Their memory is kept until the recording is done, and then by the graph.
class UsedStates {
 public:
  void add(const std::shared_ptr<const StateIdentity>& identity,
           const std::vector<std::shared_ptr<Collection>>& collections);
  void add(const std::vector<WatchedState>& of_replayed_graph);

  // The states that a recording must watch from its end on; appends the memory that it keeps to `kept`. A state that
  // the recording made and dropped is only kept. `main`, as long as it exists, is neither watched nor kept: its owner
  // watches it.
  std::vector<WatchedState> watch(std::uint64_t recording, const StateIdentity* main,
                                  std::vector<std::shared_ptr<const void>>& kept) const;
  // Names the states that work on a stream by their collections, e.g. " (the state of params, grads, step)"; "" for
  // none.
  std::string describe(const StreamImpl& stream) const;

 private:
  struct Used {
    const StateIdentity* id;
    std::uint64_t made_in;
    WatchedState state;
    std::vector<std::shared_ptr<Collection>> collections;
  };
  std::vector<Used> used_;
  std::vector<WatchedState> of_graphs_;
};

}  // namespace giro::detail
