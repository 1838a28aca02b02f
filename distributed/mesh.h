#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/distributed/world.h>

namespace giro {

// The ranks of a World in a grid with named axes, row-major: of {{"data", 4}, {"model", 2}}, ranks 0 and 1 differ in
// "model" alone, and ranks 0, 2, 4 and 6 in "data".
class Mesh {
 public:
  using Axes = std::vector<std::pair<std::string, int>>;

  // A call of all ranks, on their devices; `axes` names each with its size, -1 for one of them: what the others leave.
  // The world outlives the mesh. Errors: invalid_argument (no axis, a name twice or empty, sizes that do not make up
  // the world), and those of World::communicator.
  Mesh(World& world, Axes axes);
  Mesh(World& world, Device device, Axes axes);

  World& world() const noexcept { return world_; }
  const Axes& axes() const noexcept { return axes_; }  // with their sizes
  Device device() const noexcept { return all_.device(); }
  const Communicator& all() const noexcept { return all_; }  // of all ranks
  // Of the ranks that differ from this one in that axis alone; a rank of it is a position along the axis. For tensors
  // on the device, and for tensors in host memory. Errors: not_found.
  const Communicator& axis(const std::string& name) const { return groups(name).device; }
  const Communicator& host_axis(const std::string& name) const { return groups(name).host; }

 private:
  struct Groups {
    Communicator device, host;
  };
  const Groups& groups(const std::string& name) const;

  World& world_;
  Axes axes_;
  Communicator all_;
  std::map<std::string, Groups> groups_;
};

}  // namespace giro
