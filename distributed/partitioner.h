#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <giro/distributed/mesh.h>
#include <giro/kernels/nn/partitioner.h>

namespace giro {

struct DataParallelOptions {
  // Gradients are reduced in buckets of at least so many bytes, while the way back goes on: small ones begin early,
  // large ones use the connection better.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

// The whole state on each rank of the axis, and an even part of each batch:
//
//   giro::World world;
//   const auto partitioner = giro::data_parallel(giro::Mesh(world, {{"data", world.size()}}), "data");
//   auto train = dataset.shuffle(0).repeat().batch(256).partition(partitioner);
//   auto state = giro::TrainState::create(model, train.spec(), giro::optim::adamw(1e-3), 0, device, partitioner);
//
// The batch's size is that of all ranks together, so the same program trains the same model on any number of them, up
// to the order in which floating-point numbers are added. The world outlives the partitioner. Errors: not_found (no
// such axis), invalid_argument (bucket_bytes below 1).
std::shared_ptr<const Partitioner> data_parallel(const Mesh& mesh, const std::string& axis,
                                                 const DataParallelOptions& options = {});

}  // namespace giro
