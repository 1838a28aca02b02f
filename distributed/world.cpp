#include <giro/distributed/world.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "distributed/job.h"
#include "distributed/launch.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// Never destroyed: threads that abort communicators may still run while the program exits.
constinit std::mutex failure_mutex;
std::string& first_failure() {
  static auto* const text = new std::string;
  return *text;
}

template <std::size_t kSize>
void set(std::array<char, kSize>& text, const std::string& value) {
  value.copy(text.data(), kSize - 1);
}

void check_programs(const Communicator& host) {
  for (const auto& [what, own] :
       {std::pair("giro's version", std::string(GIRO_VERSION)), std::pair("the executable", detail::executable_id())}) {
    std::array<char, 96> text{};
    set(text, own);
    const auto all = detail::exchange(host, text);
    for (int rank = 1; rank < host.size(); ++rank) {
      const auto& other = all[static_cast<std::size_t>(rank)];
      if (other == all[0]) continue;
      throw_error(ErrorCode::communication,
                  "World: the ranks run different programs: {} is {} on rank 0 and {} on rank {}", what, all[0].data(),
                  other.data(), rank);
    }
  }
}

struct RankDevice {
  Device device;
  std::array<char, 64> gpu{};       // identifies the GPU among the GPUs of all machines
  std::array<char, 160> missing{};  // why the GPU is missing, if it is
};

RankDevice rank_device_of(Device device) {
  RankDevice rank_device{.device = device};
  if (device.is_cpu()) return rank_device;
  const Discovery discovery = discover_devices();
  if (std::ranges::find(discovery.devices, device, &DeviceInfo::device) == discovery.devices.end()) {
    set(rank_device.missing, discovery.no_cuda_reason.empty()
                                 ? fmt::format("there are {} GPUs", discovery.devices.size() - 1)
                                 : discovery.no_cuda_reason);
    return rank_device;
  }
  try {
    set(rank_device.gpu, nccl::identity_of(device));
  } catch (const Error& error) {
    set(rank_device.missing, error.what());
  }
  return rank_device;
}

// The GPU with this local rank on the machine, or the CPU if the machine has none. If a launcher shows each rank a
// single GPU, that one.
Device device_of_rank(int local_rank) {
  const Discovery discovery = discover_devices();
  const std::size_t gpus = discovery.devices.size() - 1;
  return gpus == 0 ? Device::cpu() : discovery.devices[static_cast<std::size_t>(local_rank) % gpus].device;
}

// Checks that the ranks can communicate between these devices, one per rank. Called by all ranks. An error is thrown on
// every rank: device_mismatch, device.
void check_placement(const Communicator& host, Device device) {
  const std::vector<RankDevice> rank_devices = detail::exchange(host, rank_device_of(device));
  for (std::size_t rank = 0; rank < rank_devices.size(); ++rank) {
    const RankDevice& rank_device = rank_devices[rank];
    if (rank_device.missing[0] != '\0') {
      throw_error(ErrorCode::device, "communicator: rank {} has no {}: {}", rank, to_string(rank_device.device),
                  rank_device.missing.data());
    }
    if (rank_device.device.kind() != rank_devices[0].device.kind()) {
      throw_error(
          ErrorCode::device_mismatch,
          "communicator: rank 0 asks for {}, rank {} for {}: either all ranks compute on GPUs, or all on the CPU",
          to_string(rank_devices[0].device), rank, to_string(rank_device.device));
    }
    for (std::size_t other = 0; rank_device.device.is_cuda() && other < rank; ++other) {
      if (rank_device.gpu != rank_devices[other].gpu) continue;
      throw_error(ErrorCode::device_mismatch,
                  "communicator: rank {} and rank {} share the GPU {}: each rank needs its own", other, rank,
                  rank_device.gpu.data());
    }
  }
}

// Connects the ranks that the environment describes, each with a GPU. Null for a single process without a GPU or NCCL:
// it runs alone.
std::unique_ptr<detail::Job> start_without_mpi(const detail::Launch& launch, std::chrono::milliseconds timeout) {
  const Discovery discovery = discover_devices();
  const auto gpus = static_cast<int>(discovery.devices.size()) - 1;
  std::string missing;
  if (gpus == 0) {
    missing = fmt::format("rank {} has none: {}", launch.rank, discovery.no_cuda_reason);
  } else if (!nccl::is_available()) {
    missing = "giro was built without NCCL";
  }
  if (!missing.empty()) {
    if (launch.size == 1) return nullptr;
    throw_error(ErrorCode::unsupported,
                "World: {} has started {} processes, which connect through NCCL with one GPU each, but {}. Processes "
                "on CPUs need MPI{}: mpirun -n {} PROGRAM",
                launch.launcher, launch.size, missing, mpi::is_available() ? "" : ", which giro was built without",
                launch.size);
  }
  // A single visible GPU may be the one that the launcher assigned to this rank.
  if (gpus > 1 && launch.local_rank >= gpus) {
    throw_error(ErrorCode::device_mismatch,
                "World: rank {} has local rank {} on a machine with {} GPUs: each rank needs its own", launch.rank,
                launch.local_rank, gpus);
  }
  return nccl::start(launch, device_of_rank(launch.local_rank), timeout);
}

std::chrono::milliseconds timeout_of(const WorldOptions& options) {
  if (!(options.timeout > 0)) throw_invalid("World: the timeout must be positive, found {} s", options.timeout);
  constexpr double kForEver = 1e9;  // seconds; still fits 64 bits in nanoseconds
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(std::min(options.timeout, kForEver)));
}

}  // namespace

void detail::set_failure(const std::string& why) noexcept {
  const std::lock_guard lock(failure_mutex);
  if (first_failure().empty()) first_failure() = why;
}

std::string detail::failure() {
  const std::lock_guard lock(failure_mutex);
  return first_failure();
}

struct World::Impl {
  // There is one World at a time.
  struct Only {
    Only() {
      if (exists.exchange(true)) throw_invalid("World: one already exists");
    }
    ~Only() { exists = false; }
    static inline std::atomic<bool> exists{false};
  };

  explicit Impl(const WorldOptions& options) : timeout(timeout_of(options)) { start(); }

  void start() {
    const detail::Launch launch =
        detail::read_launch([](const char* name) { return std::getenv(name); }, mpi::is_available());
    if (launch.method == detail::Launch::Method::mpi || mpi::is_initialized()) {
      job = mpi::start(timeout);
    } else if (launch.method == detail::Launch::Method::environment) {
      job = start_without_mpi(launch, timeout);
    }
    if (job) {
      host = Communicator(job->host);
      if (launch.method != detail::Launch::Method::manual && launch.size != 0 && launch.size != host.size()) {
        throw_error(ErrorCode::communication,
                    "World: {} has started {} processes, but the MPI that giro was built with sees {}: they belong to "
                    "different installations",
                    launch.launcher, launch.size, host.size());
      }
      check_programs(host);
    }
    device = device_of_rank(local_rank());
  }

  int local_rank() const { return job ? job->local_rank : 0; }

  const std::chrono::milliseconds timeout;
  const Only only;
  Communicator host;
  Device device;
  std::map<Device, Communicator> communicators;
  const int exceptions = std::uncaught_exceptions();
  bool failed = false;
  std::unique_ptr<detail::Job> job;  // null: this process is alone; ends first
};

World::World(const WorldOptions& options) : impl_(std::make_shared<Impl>(options)) {}

double World::timeout() const noexcept { return std::chrono::duration<double>(impl_->timeout).count(); }

World::~World() {
  if (!impl_->job) return;
  const bool is_unwinding = std::uncaught_exceptions() > impl_->exceptions;
  if (is_unwinding || impl_->failed || !detail::failure().empty()) {
    nccl::abandon_peers();
    return;
  }
  impl_->communicators.clear();
  try {
    impl_->host.barrier(Stream(Device::cpu()));
    impl_->job->finish();
  } catch (const std::exception&) {
    // Another rank did not arrive. MPI stays unfinalized, so mpirun reports a failure. Without MPI, the launcher knows
    // how the other rank ended.
  }
}

int World::rank() const noexcept { return impl_->host.rank(); }
int World::size() const noexcept { return impl_->host.size(); }
int World::local_rank() const noexcept { return impl_->local_rank(); }
int World::local_size() const noexcept { return impl_->job ? impl_->job->local_size : 1; }
Device World::device() const noexcept { return impl_->device; }
const Communicator& World::host() const noexcept { return impl_->host; }

Communicator World::communicator(Device device) const {
  const auto made = impl_->communicators.find(device);
  if (made != impl_->communicators.end()) return made->second;
  const Communicator& host = impl_->host;
  Communicator communicator = host;
  if (!impl_->job) {
    communicator = Communicator(device);
  } else {
    check_placement(host, device);
    if (device.is_cuda()) communicator = Communicator(nccl::connect(host, device, impl_->timeout));
  }
  impl_->communicators.emplace(device, communicator);
  return communicator;
}

void World::set_failed() noexcept { impl_->failed = true; }

}  // namespace giro
