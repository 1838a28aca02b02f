#include "distributed/mpi/communicator.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/float16.h>
#include <giro/runtime/program/native_stream.h>

#include "distributed/job.h"
#include "runtime/elements.h"
#include "runtime/throw_error.h"

namespace giro::mpi {
namespace {

// Two opaque bytes. giro's own operations do not look at the type, so one type serves both formats.
MPI_Datatype sixteen_bits() {
  static const MPI_Datatype type = [] {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_BYTE, &made);
    MPI_Type_commit(&made);
    return made;
  }();
  return type;
}

template <class T, Reduction kReduction>
void reduce(void* in, void* in_out, int* count, MPI_Datatype*) {
  const T* const a = static_cast<const T*>(in);
  T* const b = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) {
    const float x = a[i], y = b[i];
    if constexpr (kReduction == Reduction::sum) b[i] = T(x + y);
    if constexpr (kReduction == Reduction::max) b[i] = T(x > y ? x : y);
    if constexpr (kReduction == Reduction::min) b[i] = T(x < y ? x : y);
  }
}

template <class T>
MPI_Op custom_op(Reduction reduction) {
  const auto create = [](MPI_User_function* function) {
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(function, /*commute=*/1, &made);
    return made;
  };
  static const MPI_Op sum = create(reduce<T, Reduction::sum>), max = create(reduce<T, Reduction::max>),
                      min = create(reduce<T, Reduction::min>);
  return reduction == Reduction::max ? max : reduction == Reduction::min ? min : sum;
}

// MPI's type for the elements of a dtype, and its operation for a reduction of them; `sum` also serves `mean`. The
// types and operations for f16 and bf16 are giro's own. Call only while MPI is initialized.
MPI_Datatype type_of(DType dtype) {
  const MPI_Datatype in_order_of_dtype[] = {MPI_FLOAT,   sixteen_bits(), sixteen_bits(), MPI_DOUBLE,
                                            MPI_INT32_T, MPI_INT64_T,    MPI_UINT8_T,    MPI_UINT8_T};
  return in_order_of_dtype[static_cast<std::size_t>(dtype)];
}

MPI_Op op_of(DType dtype, Reduction reduction) {
  if (dtype == DType::bf16) return custom_op<BFloat16>(reduction);
  if (dtype == DType::f16) return custom_op<Float16>(reduction);
  if (reduction == Reduction::max) return MPI_MAX;
  if (reduction == Reduction::min) return MPI_MIN;
  return MPI_SUM;
}

// Turns a sum into a mean.
void divide(const Tensor& sum, int by) {
  detail::with_elements(sum, [&](auto* elements) {
    // f16 and bf16 are divided in float, which represents every group size.
    using T = std::remove_pointer_t<decltype(elements)>;
    using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (std::int64_t i = 0; i < sum.count(); ++i) {
      elements[i] = T(static_cast<Computed>(elements[i]) / static_cast<Computed>(by));
    }
  });
}

using Clock = std::chrono::steady_clock;

// Ranks may outnumber the cores. Yielding is fast, but processes that only yielded kept all others, including mpirun,
// off the cores for ten seconds on Linux 6.18. So a waiting rank sleeps briefly once per millisecond.
void yield_cpu(Clock::time_point now) {
  thread_local Clock::time_point slept = now;
  if (now - slept < std::chrono::milliseconds(1)) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(1));
  slept = Clock::now();
}

}  // namespace

void Session::fail(const std::string& why) {
  failed = true;
  detail::set_failure(why);
  throw Error(ErrorCode::communication, why);
}

void Session::check_usable(const Call& call) const {
  if (ended) throw_invalid("{}: the World of this communicator has ended", call.name);
  if (failed) {
    throw_error(ErrorCode::communication,
                "{} on rank {} of {}: an earlier collective has failed, and the ranks no longer agree", call.name,
                call.rank, call.size);
  }
}

void Session::check(int status, const Call& call, const char* hint) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(fmt::format("{} of {} bytes on rank {} of {}: MPI reports: {}{}", call.name, call.bytes, call.rank, call.size,
                   text, hint));
}

void Session::wait(MPI_Request& request, const Call& call) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call, "; another rank has exited, or makes different calls");
    if (done) return;
    const Clock::time_point now = Clock::now();
    if (now - begin > timeout) break;
    yield_cpu(now);
  }
  // The operation stays pending: MPI cannot cancel it. No further MPI call is made, so it does not progress.
  fail(fmt::format(
      "{} of {} bytes: rank {} of {} has waited {:.1f} s for the others; another rank has exited, hangs, or makes "
      "different calls",
      call.name, call.bytes, call.rank, call.size, std::chrono::duration<double>(Clock::now() - begin).count()));
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::create(std::shared_ptr<Session> session, MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  return std::make_shared<MpiCommunicator>(std::move(session), comm, rank, size);
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<Session> session, MPI_Comm comm, int rank, int size)
    : CommunicatorImpl(rank, size, Device::cpu()), session_(std::move(session)), comm_(comm) {}

template <class Start>
void MpiCommunicator::finish(const Call& call, Start&& start) {
  session_->check_usable(call);
  MPI_Request request = MPI_REQUEST_NULL;
  session_->check(start(&request), call);
  session_->wait(request, call);
}

template <class Start>
void MpiCommunicator::finish_pieces(const Call& call, const detail::Collective& of, Start&& start) {
  for (std::int64_t first = 0; first < of.count; first += max_elements_per_call) {
    const int elements = static_cast<int>(std::min(max_elements_per_call, of.count - first));
    const std::size_t byte = static_cast<std::size_t>(first) * size_of(of.dtype);
    finish(call, [&](MPI_Request* request) { return start(byte, elements, request); });
  }
}

void MpiCommunicator::run(const detail::Collective& call, const Stream& stream) {
  submit(stream, [self = shared_from_this(), call] { self->run_now(call); });
}

void MpiCommunicator::run_now(const detail::Collective& call) {
  using Kind = detail::Collective::Kind;
  if (call.kind == Kind::barrier) return barrier_now("barrier");
  if (call.kind == Kind::all_gather) return gather(call);
  if (call.kind == Kind::reduce_scatter) {
    if (call.out != static_cast<const char*>(call.in) + static_cast<std::size_t>(rank) * call.bytes()) {
      scatter(call, static_cast<char*>(call.out));
    } else {
      std::vector<char> apart(call.bytes());  // MPI_IN_PLACE would put the part at the front of `in`
      scatter(call, apart.data());
      std::memcpy(call.out, apart.data(), apart.size());
    }
  } else {
    finish_pieces(this->call(call.name(), call.bytes()), call,
                  [&](std::size_t byte, int elements, MPI_Request* request) {
                    char* const piece = static_cast<char*>(call.out) + byte;
                    return call.kind == Kind::broadcast
                               ? MPI_Ibcast(piece, elements, type_of(call.dtype), call.root, comm_, request)
                               : MPI_Iallreduce(MPI_IN_PLACE, piece, elements, type_of(call.dtype),
                                                op_of(call.dtype, call.reduction), comm_, request);
                  });
  }
  if (call.reduction == Reduction::mean) divide({call.out, call.dtype, {call.count}, Device::cpu()}, size);
}

void MpiCommunicator::gather(const detail::Collective& call) {
  const std::size_t bytes = call.bytes();
  const Call all = this->call(call.name(), bytes * static_cast<std::size_t>(size));
  const MPI_Datatype type = type_of(call.dtype);
  auto* const out = static_cast<char*>(call.out);
  char* const own = out + static_cast<std::size_t>(rank) * bytes;
  if (call.count <= max_elements_per_call / size) {
    const void* const from = call.in == own ? MPI_IN_PLACE : call.in;
    const int elements = static_cast<int>(call.count);
    return finish(all, [&](MPI_Request* request) {
      return MPI_Iallgather(from, elements, type, out, elements, type, comm_, request);
    });
  }
  // Pieces of all parts would not be contiguous in `out`, so each rank broadcasts its part instead.
  if (call.in != own) std::memcpy(own, call.in, bytes);
  for (int root = 0; root < size; ++root) {
    finish_pieces(all, call, [&](std::size_t byte, int elements, MPI_Request* request) {
      return MPI_Ibcast(out + static_cast<std::size_t>(root) * bytes + byte, elements, type, root, comm_, request);
    });
  }
}

void MpiCommunicator::scatter(const detail::Collective& call, char* out) {
  const std::size_t bytes = call.bytes();
  const Call all = this->call(call.name(), bytes * static_cast<std::size_t>(size));
  const MPI_Datatype type = type_of(call.dtype);
  const MPI_Op op = op_of(call.dtype, call.reduction);
  const auto* const in = static_cast<const char*>(call.in);
  if (call.count <= max_elements_per_call / size) {
    return finish(all, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(in, out, static_cast<int>(call.count), type, op, comm_, request);
    });
  }
  for (int root = 0; root < size; ++root) {
    finish_pieces(all, call, [&](std::size_t byte, int elements, MPI_Request* request) {
      const char* const from = in + static_cast<std::size_t>(root) * bytes + byte;
      return MPI_Ireduce(from, out + byte, elements, type, op, root, comm_, request);
    });
  }
}

void MpiCommunicator::barrier_now(const char* name) {
  finish(call(name, 0), [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
}

std::shared_ptr<detail::CommunicatorImpl> MpiCommunicator::split(int color, int key) {
  barrier_now("split");  // MPI_Comm_split would wait forever for a rank that does not arrive
  MPI_Comm part = MPI_COMM_NULL;
  session_->check(MPI_Comm_split(comm_, color, key, &part), call("split", 0));
  return create(session_, part);
}

}  // namespace giro::mpi
