#pragma once

#include <giro/runtime/tensor.h>

namespace giro {

// How an op uses a tensor argument. An empty tensor is an omitted argument.
struct In : Tensor {
  In() = default;
  In(const Tensor& tensor) : Tensor(tensor) {}
};
struct Out : Tensor {
  Out() = default;
  Out(const Tensor& tensor) : Tensor(tensor) {}
};
struct InOut : Tensor {
  InOut() = default;
  InOut(const Tensor& tensor) : Tensor(tensor) {}
};

namespace detail {
enum class Use { read, written, updated };
}

}  // namespace giro
