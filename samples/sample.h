#pragma once

// What the larger samples share.

#include <giro/giro.h>

#include <cstdio>
#include <memory>
#include <string>

namespace sample {

// For the value of --partition. Null: this process trains alone.
inline std::shared_ptr<const giro::Partitioner> make_partitioner(
    const std::string& name, giro::World& world, giro::Device device) {
  if (name == "single" && world.size() > 1) {
    throw giro::Error(giro::ErrorCode::invalid_argument,
        "--partition single: " + std::to_string(world.size()) + " processes were started, expected one, or data");
  }
  if (name == "single" || (name == "auto" && world.size() == 1)) return nullptr;
  return name == "zero" ? giro::zero_data_parallel(world, device) : giro::data_parallel(world, device);
}

// Says how to go on with a run that a signal has ended. Returns the exit code.
template <class Result>
int stopped(const Result& trained, const giro::World& world, const std::string& logdir, bool has_checkpoints) {
  if (world.is_primary()) {
    std::printf("stopped after %lld steps", static_cast<long long>(trained.elapsed.steps));
    if (has_checkpoints) std::printf(": go on with --resume --logdir %s", logdir.c_str());
    std::printf("\n");
  }
  return 128 + trained.interrupted;
}

}  // namespace sample
