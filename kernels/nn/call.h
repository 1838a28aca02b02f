#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include <giro/kernels/nn/var.h>

struct CUstream_st;  // a cudaStream_t points to one

namespace giro::nn {

// Custom ops.

struct CallOutput {
  DType dtype = DType::f32;
  Shape shape = {};
};

// The op for each kind of device, and its gradient. Each may be omitted if it is not needed.
struct CallFunctions {
  // Launches kernels on `stream`, a cudaStream_t, which may differ from the state's. Work on any other stream is not
  // ordered with the rest of a recording. A recording keeps the function, calls it when the recording is complete, and
  // calls it again when ops run one by one (Step::profile, GIRO_BLOCKING). It must therefore capture by value.
  std::function<void(const Tensor& out, const std::vector<Tensor>& in, CUstream_st* stream)> cuda = nullptr;
  // Computes `out`, on the host. Called each time the op runs. With GIRO_VERIFY=1 in the environment, a function that
  // changes what it reads is an error.
  std::function<void(const Tensor& out, const std::vector<Tensor>& in)> cpu = nullptr;
  // The gradient of the loss with respect to each input, given dy, the gradient with respect to the output. It is an
  // expression of Vars: ops of functional.h, or other calls.
  Gradient vjp = nullptr;
  // If true, it is an op like any other: it may run earlier or later, concurrently with others, or not at all if
  // nothing reads `out`. If false, all ops before it in the step are queued before it, and all ops after it are queued
  // after it.
  bool is_pure = true;
};

// A new value that a custom function computes from `inputs`, used in a step like the result of any op:
//
//   void my_op_cuda(const Tensor& out, const std::vector<Tensor>& in, cudaStream_t stream) {
//     my_kernel<<<blocks, threads, 0, stream>>>(out.data<float>(), in[0].data<float>(), in[1].data<float>());
//   }
//   ...
//   auto y = nn::call("my_op", {.shape = x.shape()}, {x, w},
//       {.cuda = my_op_cuda,
//        .cpu = [](auto& out, auto& in) { ... },
//        .vjp = [](auto& y, auto& dy, auto& in) { return std::vector{dy * in[1], dy * in[0]}; }});
//
// `out` is uninitialized. An input may be Var(), an empty tensor. Errors, which name the op: unsupported without a
// function for the device or, in backward, without a vjp; device_mismatch for an input on another device; device if a
// launch was refused; in backward invalid_argument, shape_mismatch, dtype_mismatch and device_mismatch for what vjp
// returns.
Var call(const std::string& name, const CallOutput& output, const std::vector<Var>& inputs, CallFunctions functions,
         std::source_location where = std::source_location::current());

}  // namespace giro::nn
