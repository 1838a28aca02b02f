#include <giro/distributed/communicator.h>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "distributed/internal/communicator_impl.h"
#include "distributed/internal/single.h"
#include "runtime/program/op_scope.h"
#include "runtime/program/recording.h"

namespace giro {
namespace {

void check_place(const char* call, const Tensor& tensor, Device device) {
  if (!tensor && tensor.count() > 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: the tensor has no memory", call));
  }
  if (tensor.device() != device) {
    throw Error(ErrorCode::device_mismatch, fmt::format("{}: the tensor is {}, but the communicator is on {}", call,
                                                        to_string(tensor), to_string(device)));
  }
}

void check_stream(const char* call, const Stream& stream, Device device) {
  if (stream.device() != device) {
    throw Error(ErrorCode::device_mismatch, fmt::format("{}: the stream is on {}, but the communicator is on {}", call,
                                                        to_string(stream.device()), to_string(device)));
  }
}

void check_reduction(const char* call, DType dtype, Reduction reduction) {
  if (reduction == Reduction::mean && !is_floating(dtype)) {
    throw Error(ErrorCode::dtype_mismatch,
                fmt::format("{}: a mean of {} values need not be {}; expected a floating-point dtype", call,
                            name_of(dtype), name_of(dtype)));
  }
  if (reduction == Reduction::sum && dtype == DType::boolean) {
    throw Error(
        ErrorCode::dtype_mismatch,
        fmt::format("{}: a sum of bool values is not bool; use max, which is true where any rank's element is", call));
  }
}

// Checks that `whole` holds one `part` per rank, and that `part` does not overlap it or is this rank's part of it.
void check_parts(const char* call, const char* whole_name, const Tensor& whole, const char* part_name,
                 const Tensor& part, int rank, int size) {
  if (whole.dtype() != part.dtype()) {
    throw Error(ErrorCode::dtype_mismatch,
                fmt::format("{}: {} is {}, {} is {}", call, whole_name, to_string(whole), part_name, to_string(part)));
  }
  const Shape& shape = part.shape();
  const bool is_scalar = shape.rank() == 0;
  const Shape expected =
      is_scalar ? shape.with_front(size) : shape.drop_front().with_front(shape[0] * std::int64_t{size});
  if (whole.shape() != expected) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: {} is {}, expected the shape {} for {} ranks, since {} is {}", call, whole_name,
                            to_string(whole), to_string(expected), size, part_name, to_string(part)));
  }
  const auto* const begin = static_cast<const char*>(whole.raw());
  const auto* const own = static_cast<const char*>(part.raw());
  const bool apart = own + part.bytes() <= begin || begin + whole.bytes() <= own;
  if (!apart && own != begin + static_cast<std::size_t>(rank) * part.bytes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} overlaps {} but is not the part of rank {}", call, part_name, whole_name, rank));
  }
}

// Queues the collective f(tensors..., stream). In a recording it is held like any op and keeps its place among them.
template <class F, class... Tensors>
void queue(const char* name, std::vector<Tensor> writes, std::vector<Tensor> reads, const Stream& stream, F f,
           const Tensors&... tensors) {
  if (detail::Recording::holds()) {
    detail::Recording::current()->hold(detail::HeldOp::Kind::collective,
                                       Program::Node(name, std::move(writes), std::move(reads)), stream, std::move(f),
                                       std::array<Tensor, sizeof...(tensors)>{tensors...});
  } else {
    const detail::OpScope op(name);
    f(tensors..., stream);
  }
}

}  // namespace

Communicator::Communicator(Device device) : impl_(detail::single_communicator(device)) {}
Communicator::Communicator(std::shared_ptr<detail::CommunicatorImpl> impl) : impl_(std::move(impl)) {}

int Communicator::rank() const noexcept { return impl_->rank; }
int Communicator::size() const noexcept { return impl_->size; }
Device Communicator::device() const noexcept { return impl_->device; }

void Communicator::all_reduce(const Tensor& tensor, Reduction reduction, const Stream& stream) const {
  check_place("all_reduce", tensor, device());
  check_stream("all_reduce", stream, device());
  check_reduction("all_reduce", tensor.dtype(), reduction);
  if (tensor.count() == 0) return;
  const auto run = [impl = impl_, reduction](const Tensor& values, const Stream& on) {
    impl->all_reduce(values.raw(), values.count(), values.dtype(), reduction, on);
  };
  queue("all_reduce", {tensor}, {tensor}, stream, run, tensor);
}

void Communicator::broadcast(const Tensor& tensor, int root, const Stream& stream) const {
  check_place("broadcast", tensor, device());
  check_stream("broadcast", stream, device());
  if (root < 0 || root >= size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("broadcast: there is no rank {} among {} ranks", root, size()));
  }
  if (tensor.count() == 0) return;
  const auto run = [impl = impl_, root](const Tensor& values, const Stream& on) {
    impl->broadcast(values.raw(), values.count(), values.dtype(), root, on);
  };
  queue("broadcast", {tensor}, {tensor}, stream, run, tensor);
}

void Communicator::all_gather(const Tensor& out, const Tensor& in, const Stream& stream) const {
  check_place("all_gather", out, device());
  check_place("all_gather", in, device());
  check_stream("all_gather", stream, device());
  check_parts("all_gather", "out", out, "in", in, rank(), size());
  if (in.count() == 0) return;
  const auto run = [impl = impl_](const Tensor& whole, const Tensor& part, const Stream& on) {
    impl->all_gather(whole.raw(), part.raw(), part.count(), part.dtype(), on);
  };
  queue("all_gather", {out}, {in}, stream, run, out, in);
}

void Communicator::reduce_scatter(const Tensor& out, const Tensor& in, Reduction reduction,
                                  const Stream& stream) const {
  check_place("reduce_scatter", out, device());
  check_place("reduce_scatter", in, device());
  check_stream("reduce_scatter", stream, device());
  check_parts("reduce_scatter", "in", in, "out", out, rank(), size());
  check_reduction("reduce_scatter", in.dtype(), reduction);
  if (out.count() == 0) return;
  const auto run = [impl = impl_, reduction](const Tensor& part, const Tensor& whole, const Stream& on) {
    impl->reduce_scatter(part.raw(), whole.raw(), part.count(), part.dtype(), reduction, on);
  };
  queue("reduce_scatter", {out}, {in}, stream, run, out, in);
}

void Communicator::barrier(const Stream& stream) const {
  check_stream("barrier", stream, device());
  queue("barrier", {}, {}, stream, [impl = impl_](const Stream& on) { impl->barrier(on); });
}

Communicator Communicator::split(int color, int key) const {
  if (color < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("split: expected a color of at least 0, found {}", color));
  }
  return Communicator(impl_->split(color, key));
}

}  // namespace giro
