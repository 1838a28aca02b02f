#include "distributed/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/program/native_stream.h>

#include "distributed/job.h"
#include "runtime/backend.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro::nccl {
namespace {

ncclDataType_t type_of(DType dtype) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclBfloat16, ncclFloat16, ncclFloat64,
                                       ncclInt32,   ncclInt64,    ncclUint8,   ncclUint8};  // in the order of DType
  return kTypes[static_cast<std::size_t>(dtype)];
}

ncclRedOp_t op_of(Reduction reduction) {
  constexpr ncclRedOp_t kOps[] = {ncclSum, ncclAvg, ncclMax, ncclMin};  // in the order of Reduction
  return kOps[static_cast<std::size_t>(reduction)];
}

// NCCL's reason, on one line.
std::string reason(ncclResult_t status, ncclComm_t comm) {
  std::string detail = ncclGetLastError(comm);
  std::replace(detail.begin(), detail.end(), '\n', ' ');
  return fmt::format("{}{}{}", ncclGetErrorString(status), detail.empty() ? "" : ": ", detail);
}

// The id that one rank creates and all ranks of a group need, or why it could not be created.
struct UniqueId {
  ncclUniqueId id{};
  std::array<char, 200> failure{};
};

UniqueId create_unique_id() {
  UniqueId made;
  const ncclResult_t status = ncclGetUniqueId(&made.id);
  if (status != ncclSuccess) reason(status, nullptr).copy(made.failure.data(), made.failure.size() - 1);
  return made;
}

// The ranks of `host` with this rank's color, ordered by key, then by rank.
std::vector<int> group_of(const Communicator& host, int color, int key) {
  struct Membership {
    int color, key;
  };
  const std::vector<Membership> members = detail::exchange(host, Membership{color, key});
  std::vector<int> group;
  for (int rank = 0; rank < host.size(); ++rank) {
    if (members[static_cast<std::size_t>(rank)].color == color) group.push_back(rank);
  }
  std::ranges::stable_sort(group, {}, [&](int rank) { return members[static_cast<std::size_t>(rank)].key; });
  return group;
}

// While this exists, NCCL derives the same unique id from this address in every process, and the communicator's rank 0
// listens there. Meanwhile nothing else may initialize a communicator, and no other thread may change the environment.
class NcclCommId : detail::NotCopied {
 public:
  explicit NcclCommId(const std::string& address) { setenv("NCCL_COMM_ID", address.c_str(), 1); }
  ~NcclCommId() { unsetenv("NCCL_COMM_ID"); }
};

std::string waited(const std::string& what, std::chrono::duration<double> seconds) {
  return fmt::format("{} has waited {:.1f} s for the others; another rank has exited, hangs, or makes different calls",
                     what, seconds.count());
}

// The state of a communicator's latest call, or why it cannot be asked for.
ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  return asked != ncclSuccess ? asked : state;
}

// Starts the operation.
ncclResult_t start(const detail::Collective& call, ncclComm_t comm, cudaStream_t on) {
  using Kind = detail::Collective::Kind;
  const auto count = static_cast<std::size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  switch (call.kind) {
    case Kind::broadcast:
      return ncclBroadcast(call.in, call.out, count, type, call.root, comm, on);
    case Kind::all_gather:
      return ncclAllGather(call.in, call.out, count, type, comm, on);
    case Kind::reduce_scatter:
      return ncclReduceScatter(call.in, call.out, count, type, op_of(call.reduction), comm, on);
    default:
      return ncclAllReduce(call.in, call.out, count, type, op_of(call.reduction), comm, on);
  }
}

}  // namespace

std::shared_ptr<NcclCommunicator> NcclCommunicator::connect(const Communicator& host, Device device,
                                                            std::chrono::milliseconds timeout, int color, int key) {
  const std::vector<int> group = group_of(host, color, key);
  const auto ids = detail::exchange(host, host.rank() == group[0] ? create_unique_id() : UniqueId{});
  for (int rank = 0; rank < host.size(); ++rank) {
    const UniqueId& unique_id = ids[static_cast<std::size_t>(rank)];
    if (unique_id.failure[0] == '\0') continue;
    throw_error(ErrorCode::communication, "communicator: NCCL failed to start on rank {}: {}", rank,
                unique_id.failure.data());
  }
  std::shared_ptr<NcclCommunicator> made;
  std::array<char, 200> failure{};
  try {
    const auto own = std::find(group.begin(), group.end(), host.rank());
    made = create(ids[static_cast<std::size_t>(group[0])].id, static_cast<int>(own - group.begin()),
                  static_cast<int>(group.size()), device, timeout);
  } catch (const Error& error) {
    std::string(error.what()).copy(failure.data(), failure.size() - 1);
  }
  // No rank may use or destroy it before all ranks have it.
  for (const auto& other : detail::exchange(host, failure)) {
    if (other[0] != '\0') throw Error(ErrorCode::communication, other.data());
  }
  made->start_watchdog();
  return made;
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::connect(const std::string& address, int rank, int size,
                                                            Device device, std::chrono::milliseconds timeout) {
  const NcclCommId id(address);
  const UniqueId unique_id = create_unique_id();
  if (unique_id.failure[0] != '\0') throw Error(ErrorCode::communication, unique_id.failure.data());
  const auto made = create(unique_id.id, rank, size, device, timeout);
  made->start_watchdog();
  return made;
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::create(const ncclUniqueId& id, int rank, int size, Device device,
                                                           std::chrono::milliseconds timeout) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(rank, size, device, timeout));
  const Stream stream(device);
  made->barrier_buffer_ = Buffer::allocate(device, sizeof(float));
  stream.fill(made->barrier_buffer_.data(), 0, sizeof(float));
  stream.synchronize();
  const std::lock_guard lock(made->mutex_);
  cuda::make_current(device);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  made->finish(ncclCommInitRankConfig(&made->comm_, size, id, rank, &config), "communicator", 0);
  return made;
}

NcclCommunicator::NcclCommunicator(int rank, int size, Device device, std::chrono::milliseconds timeout)
    : CommunicatorImpl(rank, size, device), timeout_(timeout) {}

// Finalization is collective. No graph holds the communicator any more.
NcclCommunicator::~NcclCommunicator() {
  watchdog_ = {};  // no poll happens afterwards
  (void)cudaSetDevice(device.index());
  if (comm_ != nullptr && detail::failure().empty() && !peers_abandoned && std::uncaught_exceptions() == 0) {
    try {
      finish(ncclCommFinalize(comm_), "~Communicator", 0);
      if (ncclCommDestroy(comm_) == ncclSuccess) comm_ = nullptr;
    } catch (const std::exception&) {
      // finish() has aborted it already.
    }
  }
  if (comm_ != nullptr) abort({});
  // NCCL only has memory left to free, which is not worth a long wait after a failure.
  if (aborted_.valid()) (void)aborted_.wait_for(std::chrono::seconds(1));
}

void NcclCommunicator::check_usable(const char* name) const {
  const std::string why = detail::failure();
  if (why.empty()) return;
  throw_error(ErrorCode::communication, "{} on rank {} of {}: an earlier collective has failed: {}", name, rank, size,
              why);
}

std::string NcclCommunicator::describe(const char* name, std::size_t bytes) const {
  return fmt::format("{} of {} bytes: rank {} of {} on {}", name, bytes, rank, size, to_string(device));
}

// ncclCommAbort first makes the GPU stop, then waits until all graphs that hold collectives of the communicator are
// destroyed, even for a non-blocking communicator (NCCL 2.28.9: commDestroySync). The thread that must destroy them may
// be this one, or may wait for it, so another thread makes the call. ncclCommRevoke would not wait for the graphs, but
// a queued or later replay would then wait for the other ranks again.
void NcclCommunicator::abort(const std::string& why) noexcept {
  if (!why.empty()) detail::set_failure(why);
  queued_.clear();
  if (comm_ == nullptr) return;
  try {
    std::packaged_task<void()> call([comm = comm_, index = device.index()] {
      (void)cudaSetDevice(index);
      (void)ncclCommAbort(comm);
    });
    aborted_ = call.get_future();
    std::thread(std::move(call)).detach();
    comm_ = nullptr;
  } catch (const std::exception&) {
    // No thread could be started: the watchdog will try again.
  }
}

void NcclCommunicator::finish(ncclResult_t status, const char* name, std::size_t bytes) {
  const Clock::time_point begin = Clock::now();
  while (status == ncclInProgress && comm_ != nullptr && Clock::now() - begin <= timeout_ &&
         detail::failure().empty()) {
    status = state_of(comm_);
    if (status == ncclInProgress) std::this_thread::yield();
  }
  if (status == ncclSuccess) return;
  const std::string why = status == ncclInProgress
                              ? waited(describe(name, bytes), Clock::now() - begin)
                              : fmt::format("{}: NCCL reports: {}", describe(name, bytes), reason(status, comm_));
  abort(why);
  throw Error(status == ncclUnhandledCudaError ? ErrorCode::device : ErrorCode::communication, why);
}

void NcclCommunicator::run(const detail::Collective& given, const Stream& stream) {
  using Kind = detail::Collective::Kind;
  const char* const name = given.name();
  const bool has_parts = given.kind == Kind::all_gather || given.kind == Kind::reduce_scatter;
  const std::size_t bytes = given.bytes() * static_cast<std::size_t>(has_parts ? size : 1);
  detail::Collective call = given;
  if (call.kind == Kind::barrier) call.count = 1, call.in = call.out = barrier_buffer_.data();
  const std::lock_guard lock(mutex_);
  check_usable(name);
  const cudaStream_t on = cuda::handle(stream);
  finish(start(call, comm_, on), name, bytes);
  if (stream.is_recording()) {
    is_recorded_ = true;
    detail::Recording::current()->owned.kept.push_back(shared_from_this());
    detail::Recording::current()->owned.peers.add(weak_from_this());
    return;
  }
  stream.impl().peers.add(weak_from_this());
  if (queued_.empty()) last_progress_ = Clock::now();
  Queued& last = queued_.emplace_back(Queued{name, bytes, {}});
  cuda::check(cudaEventCreateWithFlags(last.done.out(), cudaEventDisableTiming), "cudaEventCreateWithFlags");
  cuda::check(cudaEventRecord(last.done, on), "cudaEventRecord");
}

void NcclCommunicator::check() const {
  const std::string why = detail::failure();
  if (!why.empty()) throw Error(ErrorCode::communication, why);
}

std::shared_ptr<const void> NcclCommunicator::host_wait() {
  {
    const std::lock_guard lock(waits_mutex_);
    if (host_waits_++ == 0) waits_since_ = Clock::now();
  }
  return {nullptr, [self = shared_from_this()](std::nullptr_t) {
            const std::lock_guard lock(self->waits_mutex_);
            --self->host_waits_;
          }};
}

void NcclCommunicator::start_watchdog() {
  watchdog_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      poll();
      stopped.wait_for(lock, stop, std::chrono::milliseconds(50), [] { return false; });
    }
  });
}

bool NcclCommunicator::poll_queue() {
  while (!queued_.empty()) {
    if (cudaEventQuery(queued_.front().done) == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return Clock::now() - last_progress_ <= timeout_;
    }
    queued_.pop_front();  // done, or the device has failed, which the next wait reports
    last_progress_ = Clock::now();
  }
  return true;
}

bool NcclCommunicator::poll_host_waits() {
  const std::lock_guard lock(waits_mutex_);
  return !is_recorded_ || host_waits_ == 0 || Clock::now() - std::max(waits_since_, last_progress_) <= timeout_;
}

void NcclCommunicator::poll() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // if locked, a call is running, which has its own timeout
  if (!lock || comm_ == nullptr) return;
  if (!detail::failure().empty()) return abort({});
  (void)cudaSetDevice(device.index());
  const ncclResult_t status = state_of(comm_);
  if (status != ncclSuccess && status != ncclInProgress) {
    return abort(
        fmt::format("rank {} of {} on {}: NCCL reports: {}", rank, size, to_string(device), reason(status, comm_)));
  }
  const bool queue_progresses = poll_queue();
  if (queue_progresses && poll_host_waits()) return;
  const std::string what = queue_progresses
                               ? fmt::format("replayed collectives: rank {} of {} on {}", rank, size, to_string(device))
                               : describe(queued_.front().name, queued_.front().bytes);
  abort(waited(what, timeout_));
}

std::shared_ptr<detail::CommunicatorImpl> NcclCommunicator::split(int color, int key) {
  const Communicator host(std::make_shared<HostCommunicator>(shared_from_this()));
  return connect(host, device, timeout_, color, key);
}

HostCommunicator::HostCommunicator(std::shared_ptr<detail::CommunicatorImpl> gpus)
    : CommunicatorImpl(gpus->rank, gpus->size, Device::cpu()), gpus_(std::move(gpus)), gpu_stream_(gpus_->device) {}

void HostCommunicator::run(const detail::Collective& call, const Stream& stream) {
  submit(stream, [self = shared_from_this(), call] { self->run_now(call); });
}

void HostCommunicator::run_now(detail::Collective call) {
  const bool gathers = call.kind == detail::Collective::Kind::all_gather,
             scatters = call.kind == detail::Collective::Kind::reduce_scatter;
  const std::size_t part = call.bytes(), all = gathers || scatters ? static_cast<std::size_t>(size) * part : part;
  const Buffer buffer = all > 0 ? gpu_stream_.allocate(all) : Buffer();
  auto* const copy = static_cast<char*>(buffer.data());
  char* const own = copy + static_cast<std::size_t>(rank) * part;
  const detail::Collective given = call;
  call.in = gathers ? own : copy;
  call.out = scatters ? own : copy;
  if (all > 0) gpu_stream_.copy(gathers ? own : copy, given.in, gathers ? part : all);
  gpus_->run(call, gpu_stream_);
  gpu_stream_.synchronize();  // a failure must leave `out` unchanged
  if (all == 0) return;
  gpu_stream_.copy(given.out, call.out, scatters ? part : all);
  gpu_stream_.synchronize();
}

std::shared_ptr<detail::CommunicatorImpl> HostCommunicator::split(int color, int key) {
  return std::make_shared<HostCommunicator>(gpus_->split(color, key));
}

}  // namespace giro::nccl
