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
  // Gradients are reduced in buckets of at least this many bytes while the backward pass runs. Small buckets start
  // earlier; large ones use the bandwidth better.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

// Each rank of the world holds the whole state and takes an equal part of each batch:
//
//   giro::World world;
//   const auto partitioner = giro::data_parallel(world, world.device());
//   auto train = dataset.shuffle(0).repeat().batch(256).partition(partitioner);
//   auto state = giro::TrainState::create(model, giro::optim::adamw(1e-3),
//       {.inputs = train.spec(), .context = world.device(), .partitioner = partitioner});
//
// The batch size is the total over all ranks, so the same program trains the same model on any number of ranks, up to
// the order of floating-point additions. The world must outlive the partitioner. Called by all ranks. Errors: those of
// World::communicator; invalid_argument (bucket_bytes below 1).
std::shared_ptr<const Partitioner> data_parallel(World& world, Device device, const DataParallelOptions& options = {});
// The same among the ranks along one axis of a mesh. Ranks that differ along the other axes train separately, for
// example models with other seeds: rank 0 of each group prints and writes, and each group needs its own directory. All
// groups end together: a finished rank waits in ~World for the others, at most WorldOptions::timeout. Errors: also
// not_found.
std::shared_ptr<const Partitioner> data_parallel(const Mesh& mesh, const std::string& axis,
                                                 const DataParallelOptions& options = {});

// The same training with the optimizer's memory and work split among the ranks: each rank updates one of size() equal
// parts of the params and holds the moments of that part only. It receives the mean of its part of the gradients
// (reduce_scatter), and the updated params go to all ranks (all_gather). This sends as many bytes as data_parallel, but
// after the backward pass instead of during it. Source: Rajbhandari et al., "ZeRO: memory optimizations toward training
// trillion parameter models", 2020, first stage. Errors: those of World::communicator.
std::shared_ptr<const Partitioner> zero_data_parallel(World& world, Device device);
std::shared_ptr<const Partitioner> zero_data_parallel(const Mesh& mesh, const std::string& axis);

}  // namespace giro
