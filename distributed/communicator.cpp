#include <giro/distributed/communicator.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "distributed/communicator_impl.h"
#include "runtime/op_scope.h"
#include "runtime/program/op.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::Collective;

// The group of a single process.
class Single final : public detail::CommunicatorImpl {
 public:
  explicit Single(Device device) : detail::CommunicatorImpl(0, 1, device) {}

  void run(const Collective& call, const Stream& stream) override {
    if (call.out != call.in) stream.copy(call.out, call.in, call.bytes());
  }
  std::shared_ptr<detail::CommunicatorImpl> split(int, int) override { return std::make_shared<Single>(device); }
};

void check(const char* call, std::initializer_list<Tensor> tensors, const Stream& stream, Device device) {
  for (const Tensor& tensor : tensors) {
    if (tensor.is_empty()) throw_invalid("{}: the tensor has no memory", call);
    if (tensor.device() == device) continue;
    throw_error(ErrorCode::device_mismatch, "{}: the tensor is {}, but the communicator is on {}", call,
                to_string(tensor), to_string(device));
  }
  if (stream.device() != device) {
    throw_error(ErrorCode::device_mismatch, "{}: the stream is on {}, but the communicator is on {}", call,
                to_string(stream.device()), to_string(device));
  }
}

void check_reduction(const char* call, DType dtype, Reduction reduction) {
  if (reduction == Reduction::mean && !is_floating(dtype)) {
    throw_error(ErrorCode::dtype_mismatch, "{}: a mean of {} values need not be {}; expected a floating-point dtype",
                call, name_of(dtype), name_of(dtype));
  }
  if (reduction == Reduction::sum && dtype == DType::boolean) {
    throw_error(ErrorCode::dtype_mismatch,
                "{}: a sum of bool values is not bool; use max, which is true where any rank's element is", call);
  }
}

// Checks that `whole` holds one `part` per rank, and that `part` does not overlap it or is this rank's part of it.
void check_parts(const char* call, const char* whole_name, const Tensor& whole, const char* part_name,
                 const Tensor& part, int rank, int size) {
  if (whole.dtype() != part.dtype()) {
    throw_error(ErrorCode::dtype_mismatch, "{}: {} is {}, {} is {}", call, whole_name, to_string(whole), part_name,
                to_string(part));
  }
  const Shape& shape = part.shape();
  const bool is_scalar = shape.rank() == 0;
  const Shape expected =
      is_scalar ? shape.with_front(size) : shape.drop_front().with_front(shape[0] * std::int64_t{size});
  if (whole.shape() != expected) {
    throw_error(ErrorCode::shape_mismatch, "{}: {} is {}, expected the shape {} for {} ranks, since {} is {}", call,
                whole_name, to_string(whole), to_string(expected), size, part_name, to_string(part));
  }
  const auto* const begin = static_cast<const char*>(whole.place());
  const auto* const own = static_cast<const char*>(part.place());
  const bool apart = own + part.bytes() <= begin || begin + whole.bytes() <= own;
  if (!apart && own != begin + static_cast<std::size_t>(rank) * part.bytes()) {
    throw_invalid("{}: {} overlaps {} but is not the part of rank {}", call, part_name, whole_name, rank);
  }
}

// A collective as an op of a program: of one array that it changes, or of two.
struct CollectiveOp {
  std::shared_ptr<detail::CommunicatorImpl> impl;
  Collective call;  // everything but the arrays
  InOut both{};
  Out out{};
  In in{};
};

void run(const CollectiveOp& op, const Stream& stream) {
  Collective call = op.call;
  call.out = op.both ? op.both.raw() : op.out.raw();
  call.in = op.both ? op.both.raw() : op.in.raw();
  op.impl->run(call, stream);
}

// In a recording it is held like any op and keeps its place among them. Nothing if there are no elements.
void queue(CollectiveOp op, const Stream& stream) {
  if (op.call.count == 0 && op.call.kind != Collective::Kind::barrier) return;
  const char* const name = op.call.name();
  if (detail::Recording::holds()) {
    detail::Recording::current()->hold({Program::Node(name, {}, {}), stream,
                                        std::make_shared<detail::CallOf<CollectiveOp>>(std::move(op)),
                                        detail::HeldOp::Kind::collective});
  } else {
    const detail::OpScope scope(name);
    run(op, stream);
  }
}

}  // namespace

Communicator::Communicator(Device device) : impl_(std::make_shared<Single>(device)) {}
Communicator::Communicator(std::shared_ptr<detail::CommunicatorImpl> impl) : impl_(std::move(impl)) {}

int Communicator::rank() const noexcept { return impl_->rank; }
int Communicator::size() const noexcept { return impl_->size; }
Device Communicator::device() const noexcept { return impl_->device; }

void Communicator::all_reduce(const Tensor& tensor, Reduction reduction, const Stream& stream) const {
  check("all_reduce", {tensor}, stream, device());
  check_reduction("all_reduce", tensor.dtype(), reduction);
  queue({impl_, {Collective::Kind::all_reduce, tensor.count(), tensor.dtype(), reduction}, tensor}, stream);
}

void Communicator::broadcast(const Tensor& tensor, int root, const Stream& stream) const {
  check("broadcast", {tensor}, stream, device());
  if (root < 0 || root >= size()) throw_invalid("broadcast: there is no rank {} among {} ranks", root, size());
  const Collective call{
      .kind = Collective::Kind::broadcast, .count = tensor.count(), .dtype = tensor.dtype(), .root = root};
  queue({impl_, call, tensor}, stream);
}

void Communicator::all_gather(const Tensor& out, const Tensor& in, const Stream& stream) const {
  check("all_gather", {out, in}, stream, device());
  check_parts("all_gather", "out", out, "in", in, rank(), size());
  queue({impl_, {Collective::Kind::all_gather, in.count(), in.dtype()}, {}, out, in}, stream);
}

void Communicator::reduce_scatter(const Tensor& out, const Tensor& in, Reduction reduction,
                                  const Stream& stream) const {
  check("reduce_scatter", {out, in}, stream, device());
  check_parts("reduce_scatter", "in", in, "out", out, rank(), size());
  check_reduction("reduce_scatter", in.dtype(), reduction);
  queue({impl_, {Collective::Kind::reduce_scatter, out.count(), out.dtype(), reduction}, {}, out, in}, stream);
}

void Communicator::barrier(const Stream& stream) const {
  check("barrier", {}, stream, device());
  queue({impl_, {Collective::Kind::barrier}}, stream);
}

Communicator Communicator::split(int color, int key) const {
  if (color < 0) throw_invalid("split: expected a color of at least 0, found {}", color);
  return Communicator(impl_->split(color, key));
}

}  // namespace giro
