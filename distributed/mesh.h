#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/distributed/world.h>

namespace giro {

// The ranks of a World as a row-major grid with named axes. With {{"data", 4}, {"model", 2}}, ranks 0 and 1 differ in
// "model" only, and ranks 0, 2, 4 and 6 in "data" only.
class Mesh {
 public:
  using Axes = std::vector<std::pair<std::string, int>>;

  // Called by all ranks, each with its own device. `axes` gives each axis a name and a size; one size may be -1 and is
  // then derived from the others. The world must outlive the mesh. Errors: invalid_argument (no axis, a duplicate or
  // empty name, a product of sizes that is not the world's size), and those of World::communicator.
  Mesh(World& world, Axes axes);
  Mesh(World& world, Device device, Axes axes);

  World& world() const noexcept { return world_; }
  const Axes& axes() const noexcept { return axes_; }  // with all sizes resolved
  Device device() const noexcept { return all_.device(); }
  const Communicator& all() const noexcept { return all_; }  // of all ranks
  // The group of ranks that differ from this one along that axis only; a rank's number in the group is its position
  // along the axis. axis() is for tensors on the device, host_axis() for tensors in host memory. Errors: not_found.
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
