#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/runtime/device.h>

#include "runtime/backend.h"
#include "runtime/program/recording.h"

namespace giro::detail {

// What a graph keeps alive.
struct GraphOwned {
  std::vector<std::shared_ptr<Arena>> arenas;     // of its temporaries
  std::vector<std::shared_ptr<const void>> kept;  // everything else it uses
  std::vector<WatchedState> states;               // that it uses, except the one that its owner watches
  PeerList peers;                                 // that its work waits for
  Program program;                                // its ops
  // The calls that queue the nodes of the program again; null for work that is not an op of giro.
  std::vector<std::shared_ptr<const OpCall>> calls;
  std::vector<MemoryRange> writes;  // memory that a replay changes, without its temporaries
  bool is_blocking = false;         // replay op by op if all are ops, and wait in any case
  std::int64_t replays = 0;         // so far, if is_blocking
};

class GraphImpl {
 public:
  explicit GraphImpl(Device device) : device(device) {}
  virtual ~GraphImpl() = default;
  virtual void replay(StreamImpl& stream, std::int64_t times) = 0;
  virtual void prepare(std::int64_t times) = 0;
  virtual std::size_t num_nodes() const = 0;
  virtual std::size_t longest_path() const { return num_nodes(); }

  const Device device;
  GraphOwned owned;
};

}  // namespace giro::detail

namespace giro::cpu {
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts);
}
namespace giro::cuda {
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts);
}
