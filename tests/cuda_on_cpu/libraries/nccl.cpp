// NCCL with one process per rank, on one machine. A non-blocking communicator does not even queue its pending calls
// before its state is queried.
//
// The files named below are those of github.com/NVIDIA/nccl, v2.28.9-1 (src/) and its docs/userguide/source.

#include <nccl.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tests/cuda_on_cpu/libraries/nccl_reduce.h"
#include "tests/cuda_on_cpu/libraries/nccl_segment.h"
#include "tests/cuda_on_cpu/libraries/nccl_work.h"
#include "tests/cuda_on_cpu/libraries/work.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/graph.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/injection.h"

using cuda_on_cpu::NcclExchange;

struct ncclComm {
  std::shared_ptr<cuda_on_cpu::NcclComm> comm;
  bool connected = false;
  bool finalized = false;
  std::vector<std::function<void()>> in_progress{};  // of a non-blocking communicator: calls not queued yet
  bool asked = false;                                // whether its state was queried since then
  cuda_on_cpu::Point last{};                         // the end of what was queued

  bool is_in_progress() const { return !connected || !in_progress.empty(); }
};

namespace cuda_on_cpu {
namespace {

constexpr const char* kComm = "NCCL communicator";
constexpr const char* kInProgress = "the communicator's previous call is still in progress";

struct NcclError {
  ncclResult_t code;
  std::string why;
};

[[noreturn]] void reject(ncclResult_t code, std::string why) { throw NcclError{code, std::move(why)}; }

// This lock guards the table of communicators, ncclComm's members and the last error's text. It is never held during a
// wait.
struct Table {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> live;
  std::string last_error;
};
Table& table() {
  static auto* const table = new Table;
  return *table;
}

// What a thread has put into a group.
struct Group {
  struct Messages {
    cudaStream_t stream;
    std::vector<NcclExchange::Message> messages;
  };
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // of the last call that was refused
  std::vector<std::pair<ncclComm_t, std::function<void()>>> jobs;
  std::map<ncclComm_t, Messages> messages;
};
thread_local Group group;

// The body of a call. It takes no lock. A refused call in a group makes the whole group fail (group.cc,
// ncclGroupErrCheck).
template <class Body>
ncclResult_t nccl_call(const char* name, Body&& body) {
  NcclError error;
  try {
    forbid_in_host_function();
    return body();
  } catch (NcclError& refused) {
    error = std::move(refused);
  } catch (const CudaError& failed) {
    report(failed);
    error = {ncclUnhandledCudaError, failed.why};
  }
  const std::lock_guard lock(table().mutex);
  table().last_error = fmt::format("{}: {}", name, error.why);
  if (group.depth > 0) group.error = error.code;
  return error.code;
}

// A destroyed or aborted communicator must no longer be used (api/comms.rst); NCCL may crash.
std::shared_ptr<ncclComm> resolve(ncclComm_t handle) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().live.find(handle);
  if (found == table().live.end()) {
    reject(ncclInvalidArgument, "no such communicator: destroyed or aborted before, or never created");
  }
  return found->second;
}

// A communicator that has neither failed nor work in progress (init.cc, ncclCommEnsureReady).
std::shared_ptr<ncclComm> resolve_ready(ncclComm_t handle) {
  std::shared_ptr<ncclComm> own = resolve(handle);
  if (own->comm->error() != ncclSuccess) reject(own->comm->error(), own->comm->text());
  const std::lock_guard lock(table().mutex);
  if (own->is_in_progress()) reject(ncclInvalidArgument, kInProgress);
  return own;
}

// `code` for work after the end is the emulation's own: NCCL does not check, although it has freed what the work needs.
void expect_not_finalized(const ncclComm& own, ncclResult_t code) {
  const std::lock_guard lock(table().mutex);
  if (own.finalized) reject(code, "the communicator was finalized");
}

// Runs the job now or at the group's end (usage/groups.rst). For a non-blocking communicator it runs when the state is
// queried.
ncclResult_t issue(ncclComm_t handle, std::function<void()> job) {
  if (group.depth > 0) {
    group.jobs.emplace_back(handle, std::move(job));
    return ncclSuccess;
  }
  const std::shared_ptr<ncclComm> own = resolve(handle);
  if (own->comm->blocking) {
    job();
    return ncclSuccess;
  }
  const std::lock_guard lock(table().mutex);
  own->in_progress.push_back(std::move(job));
  own->asked = false;
  return ncclInProgress;
}

// Queues one rank's part. `make` creates it anew for each replay of a graph (usage/cudagraph.rst).
void queue(ncclComm& own, cudaStream_t on, const char* call, std::function<std::unique_ptr<NcclWork>()> make) {
  const std::lock_guard lock(api_mutex());
  throw_if_lost();
  CUstream_st& stream = cuda_on_cpu::resolve(on, call);
  if (is_legacy(stream)) forbid_legacy_during_capture(call);
  inject(Injection::launch, cudaErrorLaunchFailure, call);
  if (stream.capture) {
    const auto run = [make = std::move(make), reference = own.comm->graph_reference()] {
      const auto work = make();
      while (!work->advance()) nap();
    };
    return capture_node(stream, {.name = call, .work = run, .collective = true});
  }
  enqueue_collective(stream, call, [work = std::shared_ptr<NcclWork>(make())](const Place& place) {
    bool done = false;
    run_operation(place, [&] { done = work->advance(); });
    return done;
  });
  own.last = stream.queue->end();
}

// usage/data.rst: any memory that the GPU can access. NCCL checks this only with NCCL_CHECK_POINTERS=1 (argcheck.cc).
void expect_device_memory(const void* begin, std::size_t bytes, const char* what) {
  const std::lock_guard lock(api_mutex());
  if (bytes == 0) return;
  if (find_block(begin) == nullptr)
    reject(ncclInvalidArgument, fmt::format("{}: not memory that CUDA has allocated", what));
  try {
    check_range(begin, bytes, what);
  } catch (const CudaError& error) {
    reject(ncclInvalidArgument, error.why);
  }
}

// The codes follow ArgsCheck in misc/argcheck.cc.
void expect_type(ncclDataType_t type) {
  if (nccl_type_bytes(type) == 0) {
    reject(ncclInvalidArgument, fmt::format("type {} is unknown or not emulated", static_cast<int>(type)));
  }
}

void expect_rank(int rank, const NcclComm& comm, const char* what) {
  if (rank < 0 || rank >= comm.ranks) {
    reject(ncclInvalidArgument, fmt::format("{} {}: there are {} ranks", what, rank, comm.ranks));
  }
}

// Buffers may be used in place, each kind in its own way (usage/inplace.rst), but must not overlap in part, which NCCL
// does not check.
void expect_apart_or_in_place(const NcclCollective::Arguments& a, const NcclComm& comm) {
  const auto* send = static_cast<const char*>(a.send);
  const auto* receive = static_cast<const char*>(a.receive);
  const std::size_t sent = NcclCollective::send_bytes(a, comm), received = NcclCollective::receive_bytes(a, comm);
  if (sent == 0 || received == 0 || send + sent <= receive || receive + received <= send) return;
  const std::size_t own = static_cast<std::size_t>(comm.rank) * a.count * nccl_type_bytes(a.type);
  const char* const expected = a.kind == NcclKind::all_gather       ? receive + own
                               : a.kind == NcclKind::reduce_scatter ? receive - own
                                                                    : receive;
  if (send != expected) reject(ncclInvalidArgument, "the buffers overlap other than in place");
}

ncclResult_t collective(const char* name, const NcclCollective::Arguments& arguments, ncclComm_t handle,
                        cudaStream_t stream) {
  return nccl_call(name, [&] {
    const std::shared_ptr<ncclComm> own = resolve_ready(handle);
    const std::shared_ptr<NcclComm> comm = own->comm;
    expect_not_finalized(*own, ncclInvalidUsage);
    expect_type(arguments.type);
    expect_rank(arguments.root, *comm, "root");
    if (arguments.op < ncclSum || arguments.op > ncclAvg) reject(ncclInvalidArgument, "no such reduction");
    expect_device_memory(arguments.send, NcclCollective::send_bytes(arguments, *comm), "the buffer to send");
    expect_device_memory(arguments.receive, NcclCollective::receive_bytes(arguments, *comm), "the buffer to receive");
    expect_apart_or_in_place(arguments, *comm);
    if (arguments.count == 0)
      return ncclSuccess;  // nothing is queued, and nothing waits for other ranks (enqueue.cc, taskAppend)
    return issue(handle, [=] {
      queue(*resolve(handle), stream, name, [=] { return std::make_unique<NcclCollective>(comm, name, arguments); });
    });
  });
}

void exchange(ncclComm_t handle, const Group::Messages& messages) {
  const std::shared_ptr<ncclComm> own = resolve(handle);
  queue(*own, messages.stream, "ncclSend and ncclRecv", [comm = own->comm, all = messages.messages] {
    return std::make_unique<NcclExchange>(comm, "ncclSend and ncclRecv", all);
  });
}

ncclResult_t message(const char* name, const NcclExchange::Message& message, ncclComm_t handle, cudaStream_t stream) {
  return nccl_call(name, [&] {
    const std::shared_ptr<ncclComm> own = resolve_ready(handle);
    expect_not_finalized(*own, ncclInvalidUsage);
    expect_type(message.type);
    expect_rank(message.peer, *own->comm, "peer");
    expect_device_memory(message.buffer, message.count * nccl_type_bytes(message.type), "the buffer");
    if (group.depth == 0) return issue(handle, [=] { exchange(handle, {stream, {message}}); });
    const auto [entry, is_new] = group.messages.try_emplace(handle, Group::Messages{stream, {}});
    if (!is_new && entry->second.stream != stream) {
      reject(ncclInvalidUsage, "messages of one group on two streams are not emulated");
    }
    entry->second.messages.push_back(message);
    return ncclSuccess;
  });
}

// Adds this rank to the segment.
void join(NcclComm& comm) {
  NcclSegment& segment = comm.segment;
  std::int32_t ranks = 0;
  if (!segment->ranks.compare_exchange_strong(ranks, comm.ranks) && ranks != comm.ranks) {
    reject(ncclInvalidArgument, fmt::format("rank {} expects {} ranks, another {}", comm.rank, comm.ranks, ranks));
  }
  cudaDeviceProp properties;
  (void)cudaGetDeviceProperties(&properties, 0);
  if (segment->rank[comm.rank].present) reject(ncclInvalidUsage, fmt::format("rank {} exists already", comm.rank));
  segment.hold_lock(comm.rank);
  std::memcpy(&segment->rank[comm.rank].gpu, properties.uuid.bytes, sizeof segment->rank[comm.rank].gpu);
  segment->rank[comm.rank].present = 1;
  ++segment->joined;
}

// init.cc, initTransportsRank.
void expect_one_gpu_each(NcclComm& comm) {
  for (int rank = 0; rank < comm.ranks; ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (comm.segment->rank[rank].gpu != comm.segment->rank[other].gpu) continue;
      comm.set_error(ncclInvalidUsage,
                     fmt::format("Duplicate GPU detected: rank {} and rank {} are on the same GPU", other, rank));
    }
  }
}

// Whether all ranks have arrived. If not, `lost` says whether one that had arrived has left. A rank may leave as soon
// as all have arrived, before this one has seen it, so the departures are looked at first. Throws if they cannot start.
bool is_connected(ncclComm& own, std::optional<std::string>& lost) {
  NcclSegment& segment = own.comm->segment;
  lost.reset();
  for (int rank = 0; rank < own.comm->ranks && !lost; ++rank) {
    if (segment->rank[rank].present) lost = own.comm->why_lost(rank);
  }
  if (segment->joined < own.comm->ranks) return false;
  lost.reset();
  expect_one_gpu_each(*own.comm);
  segment.remove_name();
  const std::lock_guard lock(table().mutex);
  own.connected = true;
  return true;
}

void wait_for_ranks(ncclComm& own) {
  const NcclSegment& segment = own.comm->segment;
  const auto begin = std::chrono::steady_clock::now();
  for (std::optional<std::string> lost; !is_connected(own, lost);) {
    if (own.comm->aborted) reject(ncclInternalError, "the communicator was aborted");
    if (lost) reject(ncclRemoteError, *lost);
    if (std::chrono::steady_clock::now() - begin > nccl_timeout()) {
      reject(ncclSystemError, fmt::format("rank {} has seen {} of {} ranks in {} s", own.comm->rank,
                                          segment->joined.load(), own.comm->ranks, nccl_timeout().count()));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (own.comm->error() != ncclSuccess) reject(own.comm->error(), own.comm->text());
}

ncclResult_t initialise(const char* name, ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank, bool blocking) {
  return nccl_call(name, [&] {
    if (out == nullptr) reject(ncclInvalidArgument, "a null pointer for the communicator");
    *out = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks) {  // init.cc, ncclCommInitRankDev
      reject(ncclInvalidArgument, fmt::format("rank {} of {}", rank, ranks));
    }
    if (ranks > NcclSegment::kMaxRanks) {
      reject(ncclInvalidArgument, fmt::format("{} ranks: the emulation has {} at most", ranks, NcclSegment::kMaxRanks));
    }
    auto own = std::make_shared<ncclComm>();
    const std::string segment(id.internal, strnlen(id.internal, sizeof id.internal));
    // init.cc, ncclCommInitRankDev: with NCCL_COMM_ID, rank 0 listens at that address. Without it, the process that
    // created the id listens.
    const char* const address = std::getenv("NCCL_COMM_ID");
    if (address != nullptr && rank == 0 && !segment.ends_with(std::string("-at-") + address)) {
      reject(ncclSystemError, fmt::format("NCCL_COMM_ID is {}, and the unique id was made without it: rank 0 would "
                                          "listen twice at one address",
                                          address));
    }
    try {
      own->comm = std::make_shared<NcclComm>(segment, rank, ranks, blocking);
      join(*own->comm);
    } catch (const CudaError& error) {
      reject(ncclSystemError, error.why);
    }
    const ncclComm_t handle = own.get();
    {
      const std::lock_guard lock(table().mutex);
      table().live[handle] = std::move(own);
    }
    add_handle(kComm, handle);
    *out = handle;
    if (!blocking && group.depth == 0) return ncclInProgress;
    const auto wait = [handle] { wait_for_ranks(*resolve(handle)); };
    if (group.depth > 0) {
      group.jobs.emplace_back(
          handle, blocking ? std::function<void()>(wait) : [] {});
      return ncclSuccess;
    }
    wait();
    return ncclSuccess;
  });
}

// Removes the communicator from the table.
std::shared_ptr<ncclComm> remove(ncclComm_t handle) {
  std::shared_ptr<ncclComm> own;
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().live.find(handle);
    if (found != table().live.end()) own = std::move(found->second);
    table().live.erase(handle);
  }
  if (!own) reject(ncclInvalidArgument, "no such communicator: destroyed or aborted before, or never created");
  return own;
}

// Finalizing, destroying and aborting a communicator wait for its work, and then until every graph that has captured it
// is destroyed, as in commDestroySync of NCCL 2.28.9's init.cc. Destroying and aborting wait in the calling thread,
// even if the communicator is non-blocking (ncclAsyncLaunch in group.cc).
void wait_for_work_and_graphs(const ncclComm& own) {
  {
    const std::lock_guard lock(api_mutex());
    run_until(own.last);
  }
  while (own.comm->is_in_graphs()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

// Runs what a non-blocking communicator has left pending. Nothing happens at the first query.
void go_on(ncclComm& own) {
  NcclComm& comm = *own.comm;
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(table().mutex);
    if (!own.is_in_progress() || !std::exchange(own.asked, true)) return;
    if (own.connected) jobs = own.in_progress;
  }
  if (own.finalized && comm.is_in_graphs()) return;
  if (jobs.empty()) {
    std::optional<std::string> lost;
    if (!is_connected(own, lost) && lost) comm.set_error(ncclRemoteError, *lost);
    return;
  }
  try {
    for (const auto& job : jobs) job();
  } catch (const CudaError& failed) {
    report(failed);
    comm.set_error(ncclUnhandledCudaError, failed.why);
  }
  const std::lock_guard lock(table().mutex);
  own.in_progress.clear();
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return nccl_call("ncclGetVersion", [&] {
    if (version == nullptr) reject(ncclInvalidArgument, "a null pointer for the version");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  static const std::map<ncclResult_t, const char*> all{
      {ncclSuccess, "no error"},
      {ncclUnhandledCudaError, "unhandled cuda error"},
      {ncclSystemError, "unhandled system error"},
      {ncclInternalError, "internal error"},
      {ncclInvalidArgument, "invalid argument"},
      {ncclInvalidUsage, "invalid usage"},
      {ncclRemoteError, "remote process exited or there was a network error"},
      {ncclInProgress, "NCCL operation in progress"}};
  const auto found = all.find(result);
  return found != all.end() ? found->second : "unknown result code";
}

// The error of the communicator's work if it has failed, else of the last refused call. NCCL returns the last of either
// kind in the whole process (init.cc).
const char* ncclGetLastError(ncclComm_t handle) {
  static thread_local std::string text;
  const std::lock_guard lock(table().mutex);
  text = table().last_error;
  const auto found = table().live.find(handle);
  if (found != table().live.end() && found->second->comm->error() != ncclSuccess) text = found->second->comm->text();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&] {
    if (id == nullptr) reject(ncclInvalidArgument, "a null pointer for the id");
    const char* const address = std::getenv("NCCL_COMM_ID");
    // bootstrap.cc, bootstrapGetUniqueId: then the address is the whole id.
    const std::string name = address != nullptr ? NcclSegment::create_at(address) : NcclSegment::create();
    *id = {};
    if (name.size() >= sizeof id->internal) reject(ncclInvalidArgument, fmt::format("too long: {}", name));
    std::memcpy(id->internal, name.data(), name.size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return initialise("ncclCommInitRank", comm, ranks, id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const ncclConfig_t standard = NCCL_CONFIG_INITIALIZER;
  if (config != nullptr && config->magic != standard.magic) {  // init.cc, parseCommConfig
    return nccl_call("ncclCommInitRankConfig", [&]() -> ncclResult_t {
      reject(ncclInvalidArgument, "the configuration was not initialised with NCCL_CONFIG_INITIALIZER");
    });
  }
  return initialise("ncclCommInitRankConfig", comm, ranks, id, rank, config == nullptr || config->blocking != 0);
}

// In progress until everything is queued, then an error of what was queued, if there is one (api/comms.rst).
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return nccl_call("ncclCommGetAsyncError", [&] {
    const std::shared_ptr<ncclComm> own = resolve(handle);
    if (error == nullptr) reject(ncclInvalidArgument, "a null pointer for the error");
    go_on(*own);
    *error = own->comm->error();
    const std::lock_guard lock(table().mutex);
    if (*error == ncclSuccess && own->is_in_progress()) *error = ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  return nccl_call("ncclCommFinalize", [&] {
    const std::shared_ptr<ncclComm> own = resolve_ready(handle);
    expect_not_finalized(*own, ncclInvalidArgument);  // init.cc, ncclCommFinalize
    own->finalized = true;
    return issue(handle, [handle] { wait_for_work_and_graphs(*resolve(handle)); });
  });
}

// A communicator that has failed stays, and must be aborted (init.cc, ncclCommDestroy; api/comms.rst,
// ncclCommGetAsyncError).
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  return nccl_call("ncclCommDestroy", [&] {
    resolve_ready(handle);
    const std::shared_ptr<ncclComm> own = remove(handle);
    remove_handle(kComm, handle);
    wait_for_work_and_graphs(*own);
    own->comm->destroyed = true;
    return ncclSuccess;
  });
}

// The other ranks are not notified: a rank that waits for this one finds that it has left. Work that still uses the
// communicator ends at once, and so do replays that come while this call waits for their graphs.
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  return nccl_call("ncclCommAbort", [&] {
    const std::shared_ptr<ncclComm> own = remove(handle);
    own->comm->aborted = true;
    own->comm->segment->rank[own->comm->rank].gave_up = 1;
    remove_handle(kComm, handle);
    try {
      wait_for_work_and_graphs(*own);
    } catch (const CudaError&) {
      // The device is lost. Every wait for it reports that.
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return nccl_call("ncclCommCount", [&] {
    *count = resolve_ready(comm)->comm->ranks;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return nccl_call("ncclCommUserRank", [&] {
    *rank = resolve_ready(comm)->comm->rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return nccl_call("ncclCommCuDevice", [&] {
    resolve_ready(comm);
    *device = 0;
    return ncclSuccess;
  });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", {NcclKind::all_reduce, send, receive, count, type, op}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBroadcast", {NcclKind::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduce", {NcclKind::reduce, send, receive, count, type, op, root}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", {NcclKind::all_gather, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", {NcclKind::reduce_scatter, send, receive, count, type, op}, comm, stream);
}

ncclResult_t ncclSend(const void* buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("ncclSend", {true, const_cast<void*>(buffer), count, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* buffer, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("ncclRecv", {false, buffer, count, type, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return nccl_call("ncclGroupEnd", [&] {
    if (group.depth == 0) reject(ncclInvalidUsage, "no group was started");  // group.cc, ncclGroupEndInternal
    if (--group.depth > 0) return ncclSuccess;
    Group ended = std::exchange(group, {});
    if (ended.error != ncclSuccess) reject(ended.error, "a call of the group was rejected");
    ncclResult_t result = ncclSuccess;
    for (auto& [comm, messages] : ended.messages) {
      ended.jobs.emplace_back(comm, [comm = comm, messages = messages] { exchange(comm, messages); });
    }
    for (auto& [comm, job] : ended.jobs) result = std::max(result, issue(comm, std::move(job)));
    return result;
  });
}
}
