#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <giro/distributed/mesh.h>
#include <giro/distributed/world.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/device.h>

namespace giro {

struct DataParallelOptions {
  // Gradients are reduced in buckets of at least so many bytes, while the backward pass goes on: small ones begin
  // early, large ones use the connection better.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

// The whole state on each rank of the world, and an even part of each batch:
//
//   giro::World world;
//   const auto partitioner = giro::data_parallel(world, world.device());
//   auto train = dataset.shuffle(0).repeat().batch(256).partition(partitioner);
//   auto state = giro::TrainState::create(model, train.spec(), giro::optim::adamw(1e-3), 0, world.device(),
//   partitioner);
//
// The batch's size is that of all ranks together, so the same program trains the same model on any number of them, up
// to the order in which floating-point numbers are added. The world outlives the partitioner. A call of all ranks.
// Errors: those of World::communicator; invalid_argument (bucket_bytes below 1).
std::shared_ptr<const Partitioner> data_parallel(World& world, Device device, const DataParallelOptions& options = {});
// The same among the ranks along one axis of a mesh. What differs along its other axes trains by itself, such as models
// of other seeds: rank 0 of each axis prints and writes, and each wants a directory of its own. All end together:
// whoever is done waits in ~World for the others, as long as WorldOptions::timeout. Errors besides: not_found.
std::shared_ptr<const Partitioner> data_parallel(const Mesh& mesh, const std::string& axis,
                                                 const DataParallelOptions& options = {});

// The same training with a share of the optimizer's memory and work: each rank updates one of size() even parts of the
// params and holds the moments of that part alone. Of the gradients each rank gets the mean of its part
// (reduce_scatter), and the updated params go to all (all_gather), which is as many bytes as data_parallel sends, but
// after the backward pass instead of beside it. Rajbhandari et al., "ZeRO: memory optimizations toward training
// trillion parameter models", 2020: its first stage. Errors: those of World::communicator.
std::shared_ptr<const Partitioner> zero_data_parallel(World& world, Device device);
std::shared_ptr<const Partitioner> zero_data_parallel(const Mesh& mesh, const std::string& axis);

}  // namespace giro
