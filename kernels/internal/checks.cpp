#include "kernels/internal/checks.h"

#include <fmt/format.h>

#include <giro/runtime/error.h>

namespace giro::checks {
namespace {

// Rejects a tensor without memory. Optional arguments are only checked if they are given.
void is_given(std::string_view op, const Argument& argument) {
  if (!argument.tensor && argument.tensor.count() > 0) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{}: {} is empty, expected a tensor", op, argument.name));
  }
}

}  // namespace

void on_device(std::string_view op, std::initializer_list<Argument> arguments, const Stream& stream) {
  for (const Argument& argument : arguments) {
    if (argument.tensor && argument.tensor.device() != stream.device()) {
      throw Error(ErrorCode::device_mismatch, fmt::format("{}: {} is {}, the stream is on {}", op, argument.name,
                                                          to_string(argument.tensor), to_string(stream.device())));
    }
  }
}

void has_dtype(std::string_view op, const Argument& argument, DType dtype) {
  is_given(op, argument);
  if (argument.tensor.dtype() != dtype) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("{}: {} is {}, expected dtype {}", op, argument.name,
                                                       to_string(argument.tensor), name_of(dtype)));
  }
}

void is_floating(std::string_view op, const Argument& argument) {
  if (!giro::is_floating(argument.tensor.dtype())) {
    throw Error(ErrorCode::dtype_mismatch,
                fmt::format("{}: {} is {}, expected a floating dtype", op, argument.name, to_string(argument.tensor)));
  }
}

void is_storage(std::string_view op, const Argument& argument) {
  is_given(op, argument);
  const DType dtype = argument.tensor.dtype();
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("{}: {} is {}, expected dtype f32, bf16 or f16", op,
                                                       argument.name, to_string(argument.tensor)));
  }
}

void is_f32_or_as(std::string_view op, const Argument& argument, const Argument& like) {
  if (argument.tensor.dtype() != DType::f32) same_dtype(op, argument, like);
}

void is_integer(std::string_view op, const Argument& argument) {
  const DType dtype = argument.tensor.dtype();
  if (dtype != DType::u8 && dtype != DType::i32 && dtype != DType::i64) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("{}: {} is {}, expected dtype u8, i32 or i64", op, argument.name,
                                                       to_string(argument.tensor)));
  }
}

void same_dtype(std::string_view op, const Argument& a, const Argument& b) {
  if (a.tensor.dtype() != b.tensor.dtype()) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("{}: {} is {}, but {} is {}", op, a.name, to_string(a.tensor),
                                                       b.name, to_string(b.tensor)));
  }
}

void has_shape(std::string_view op, const Argument& argument, const Shape& shape) {
  is_given(op, argument);
  if (argument.tensor.shape() != shape) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{}: {} is {}, expected shape {}", op, argument.name,
                                                       to_string(argument.tensor), to_string(shape)));
  }
}

void has_rank(std::string_view op, const Argument& argument, std::size_t rank) {
  if (argument.tensor.shape().rank() != rank) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: {} is {}, expected {} axes", op, argument.name, to_string(argument.tensor), rank));
  }
}

void same_shape(std::string_view op, const Argument& a, const Argument& b) {
  is_given(op, a);
  is_given(op, b);
  if (a.tensor.shape() != b.tensor.shape()) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{}: {} is {}, but {} is {}", op, a.name, to_string(a.tensor),
                                                       b.name, to_string(b.tensor)));
  }
}

void is_slot_ring(std::string_view op, const SlotRing& ring, const Stream& stream) {
  has_dtype(op, {"slots", ring.slots}, DType::u8);
  has_rank(op, {"slots", ring.slots}, 2);
  // Pinned slots are in host memory.
  if (!ring.slots.device().is_cpu()) on_device(op, {{"slots", ring.slots}}, stream);
  if (ring.count() < 1 || ring.bytes() % SlotRing::kAlignment != 0) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: slots is {}, expected one or more slots, each a multiple of {} bytes", op,
                            to_string(ring.slots), static_cast<int>(SlotRing::kAlignment)));
  }
  on_device(op, {{"call", ring.call}}, stream);
  has_dtype(op, {"call", ring.call}, DType::i64);
  has_shape(op, {"call", ring.call}, {});
}

}  // namespace giro::checks
