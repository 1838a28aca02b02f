#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "tests/cuda_on_cpu/engine/block.h"
#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/engine/race_check.h"

namespace giro::simt {
namespace {

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

std::function<std::string(std::uint64_t, std::uint32_t)>& conditional_setter() {
  static auto* const set = new std::function<std::string(std::uint64_t, std::uint32_t)>;
  return *set;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

Block& block() {
  static auto* const block = new Block;
  return *block;
}

}  // namespace

Options& options() {
  static Options options{.seed = environment("GIRO_SIMT_SEED", 0),
                         .race_check = environment("GIRO_SIMT_RACE_CHECK", 1) != 0,
                         .watchdog = environment("GIRO_SIMT_WATCHDOG", Options().watchdog)};
  return options;
}

void on_set_conditional(std::function<std::string(std::uint64_t, std::uint32_t)> set) {
  conditional_setter() = std::move(set);
}

void Thread::set_conditional(std::uint64_t handle, std::uint32_t value, std::uint32_t site) {
  const auto& set = conditional_setter();
  const std::string wrong = set ? set(handle, value) : "no conditional handle has been created";
  if (!wrong.empty()) stop(*this, Fault::trap, "cudaGraphSetConditional: " + wrong, site);
}

Outcome check_configuration(const Kernel& kernel, const Launch& launch, std::size_t shared_limit) {
  const Dim3 &grid = launch.grid, &block = launch.block;
  const auto reject = [&](const std::string& why) {
    return Outcome{Fault::invalid_configuration, fmt::format("{}: {}", demangled(kernel.name), why)};
  };
  if (grid.count() == 0 || block.count() == 0) {
    return reject(fmt::format("a grid of ({},{},{}) blocks of ({},{},{}) threads is empty", grid.x, grid.y, grid.z,
                              block.x, block.y, block.z));
  }
  if (grid.x > Limits::kGridX || grid.y > Limits::kGridYZ || grid.z > Limits::kGridYZ) {
    return reject(fmt::format("a grid of ({},{},{}) blocks is larger than ({},{},{})", grid.x, grid.y, grid.z,
                              Limits::kGridX, Limits::kGridYZ, Limits::kGridYZ));
  }
  const unsigned int most = std::min(kernel.max_threads, Limits::kThreads);
  if (block.count() > most || block.z > Limits::kBlockZ) {
    return reject(fmt::format("a block of ({},{},{}) threads is larger than {} threads, {} along z", block.x, block.y,
                              block.z, most, Limits::kBlockZ));
  }
  if (kernel.static_shared_bytes + launch.dynamic_shared_bytes > shared_limit) {
    return reject(fmt::format("{} bytes of static and {} of dynamic shared memory are more than {}",
                              kernel.static_shared_bytes, launch.dynamic_shared_bytes, shared_limit));
  }
  return {};
}

Outcome launch(const Kernel& kernel, const Launch& launch) {
  if (Outcome outcome = check_configuration(kernel, launch, Limits::kSharedBytesOptIn); !outcome) return outcome;
  static std::uint64_t launches = 0;
  std::mt19937_64 random(options().seed * 0x9e3779b97f4a7c15u + launches++);

  const std::uint64_t count = launch.grid.count();
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::shuffle(order.begin(), order.end(), random);

  Block& running = block();
  running.begin_launch(kernel, launch);
  if (running.checks_races()) {
    race_check().begin_launch(launch.operation, count, static_cast<unsigned int>(launch.block.count()));
  }
  Outcome outcome;
  for (const std::uint64_t i : order) {
    const Dim3& grid = launch.grid;
    const Dim3 index{static_cast<unsigned int>(i % grid.x), static_cast<unsigned int>(i / grid.x % grid.y),
                     static_cast<unsigned int>(i / (std::uint64_t{grid.x} * grid.y))};
    if (const auto stop = running.run(index, random)) {
      outcome = {stop->fault, fmt::format("{}: {}", demangled(kernel.name), stop->message)};
      break;
    }
  }
  if (running.checks_races()) race_check().end_launch();
  return outcome;
}

}  // namespace giro::simt
