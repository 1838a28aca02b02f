#include "distributed/mpi/communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/float16.h>
#include <giro/runtime/native_stream.h>

#include "distributed/mpi/elements.h"

namespace giro::mpi {
namespace {

template <class T>
void divide(void* data, std::int64_t count, int by) {
  // f16 and bf16 are divided in float, which represents every group size.
  using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
  auto* const elements = static_cast<T*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    elements[i] = T(static_cast<Computed>(elements[i]) / static_cast<Computed>(by));
  }
}

// Turns a sum into a mean.
void divide(void* data, std::int64_t count, DType dtype, int by) {
  switch (dtype) {
    case DType::f32:
      return divide<float>(data, count, by);
    case DType::f64:
      return divide<double>(data, count, by);
    case DType::bf16:
      return divide<BFloat16>(data, count, by);
    case DType::f16:
      return divide<Float16>(data, count, by);
    default:
      throw Error(ErrorCode::dtype_mismatch, "a mean requires floating-point elements");
  }
}

}  // namespace

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
void MpiCommunicator::run(const Call& call, Start&& start) {
  session_->check_usable(call);
  MPI_Request request = MPI_REQUEST_NULL;
  session_->check(start(&request), call);
  session_->wait(request, call);
}

template <class Start>
void MpiCommunicator::run_pieces(const Call& call, std::int64_t count, std::int64_t most, Start&& start) {
  for (std::int64_t first = 0; first < count; first += most) {
    const int elements = static_cast<int>(std::min(most, count - first));
    run(call, [&](MPI_Request* request) { return start(first, elements, request); });
  }
}

void MpiCommunicator::all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                                 const Stream& stream) {
  submit(stream, [self = shared_from_this(), data, count, dtype, reduction] {
    const std::size_t width = size_of(dtype);
    self->run_pieces(self->call("all_reduce", static_cast<std::size_t>(count) * width), count, max_elements_per_call,
                     [&](std::int64_t first, int elements, MPI_Request* request) {
                       char* const piece = static_cast<char*>(data) + static_cast<std::size_t>(first) * width;
                       return MPI_Iallreduce(MPI_IN_PLACE, piece, elements, type_of(dtype), op_of(dtype, reduction),
                                             self->comm_, request);
                     });
    if (reduction == Reduction::mean) divide(data, count, dtype, self->size);
  });
}

void MpiCommunicator::broadcast(void* data, std::int64_t count, DType dtype, int root, const Stream& stream) {
  submit(stream, [self = shared_from_this(), data, count, dtype, root] {
    const std::size_t width = size_of(dtype);
    self->run_pieces(self->call("broadcast", static_cast<std::size_t>(count) * width), count, max_elements_per_call,
                     [&](std::int64_t first, int elements, MPI_Request* request) {
                       char* const piece = static_cast<char*>(data) + static_cast<std::size_t>(first) * width;
                       return MPI_Ibcast(piece, elements, type_of(dtype), root, self->comm_, request);
                     });
  });
}

void MpiCommunicator::all_gather(void* out, const void* in, std::int64_t count, DType dtype, const Stream& stream) {
  submit(stream, [self = shared_from_this(), out, in, count, dtype] {
    self->gather_now(static_cast<char*>(out), static_cast<const char*>(in), count, dtype);
  });
}

void MpiCommunicator::gather_now(char* out, const char* in, std::int64_t count, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const Call gather = call("all_gather", bytes * static_cast<std::size_t>(size));
  char* const own = out + static_cast<std::size_t>(rank) * bytes;
  if (count <= max_elements_per_call / size) {
    const void* const from = in == own ? MPI_IN_PLACE : in;
    const int elements = static_cast<int>(count);
    return run(gather, [&](MPI_Request* request) {
      return MPI_Iallgather(from, elements, type_of(dtype), out, elements, type_of(dtype), comm_, request);
    });
  }
  // Pieces of all parts would not be contiguous in `out`, so each rank broadcasts its part instead.
  if (in != own) std::memcpy(own, in, bytes);
  for (int root = 0; root < size; ++root) {
    run_pieces(gather, count, max_elements_per_call, [&](std::int64_t first, int elements, MPI_Request* request) {
      char* const piece =
          out + static_cast<std::size_t>(root) * bytes + static_cast<std::size_t>(first) * size_of(dtype);
      return MPI_Ibcast(piece, elements, type_of(dtype), root, comm_, request);
    });
  }
}

void MpiCommunicator::reduce_scatter(void* out, const void* in, std::int64_t count, DType dtype, Reduction reduction,
                                     const Stream& stream) {
  submit(stream, [self = shared_from_this(), out, in, count, dtype, reduction] {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    const char* const from = static_cast<const char*>(in);
    if (out != from + static_cast<std::size_t>(self->rank) * bytes) {
      self->reduce_scatter_now(static_cast<char*>(out), from, count, dtype, reduction);
    } else {
      std::vector<char> apart(bytes);  // MPI_IN_PLACE would put the part at the front of `in`
      self->reduce_scatter_now(apart.data(), from, count, dtype, reduction);
      std::memcpy(out, apart.data(), bytes);
    }
    if (reduction == Reduction::mean) divide(out, count, dtype, self->size);
  });
}

void MpiCommunicator::reduce_scatter_now(char* out, const char* in, std::int64_t count, DType dtype,
                                         Reduction reduction) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const Call scatter = call("reduce_scatter", bytes * static_cast<std::size_t>(size));
  if (count <= max_elements_per_call / size) {
    return run(scatter, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(in, out, static_cast<int>(count), type_of(dtype), op_of(dtype, reduction), comm_,
                                       request);
    });
  }
  for (int root = 0; root < size; ++root) {
    run_pieces(scatter, count, max_elements_per_call, [&](std::int64_t first, int elements, MPI_Request* request) {
      const std::size_t offset = static_cast<std::size_t>(first) * size_of(dtype);
      return MPI_Ireduce(in + static_cast<std::size_t>(root) * bytes + offset, out + offset, elements, type_of(dtype),
                         op_of(dtype, reduction), root, comm_, request);
    });
  }
}

void MpiCommunicator::barrier(const Stream& stream) {
  submit(stream, [self = shared_from_this()] { self->barrier_now("barrier"); });
}

void MpiCommunicator::barrier_now(const char* name) {
  run(call(name, 0), [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
}

std::shared_ptr<detail::CommunicatorImpl> MpiCommunicator::split(int color, int key) {
  barrier_now("split");  // MPI_Comm_split would wait forever for a rank that does not arrive
  MPI_Comm part = MPI_COMM_NULL;
  session_->check(MPI_Comm_split(comm_, color, key, &part), call("split", 0));
  return create(session_, part);
}

}  // namespace giro::mpi
