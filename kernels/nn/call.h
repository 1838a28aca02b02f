#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include <giro/kernels/nn/var.h>

struct CUstream_st;  // a cudaStream_t points to one

namespace giro::nn {

// An op of one's own.

struct CallOutput {
  DType dtype = DType::f32;
  Shape shape = {};
};

// The op on each kind of device, and its gradient; each may be left out where it is not needed.
struct CallFunctions {
  // Launches kernels on `stream`, a cudaStream_t, which need not be the state's: nothing orders work on another stream
  // with the rest of a recording. A recording keeps the function and calls it once it is complete, and again where ops
  // run one by one (Step::profile, GIRO_BLOCKING): it captures by value.
  std::function<void(const Tensor& out, const std::vector<Tensor>& in, CUstream_st* stream)> cuda = nullptr;
  // Computes `out`, on the host. Called each time that the op runs.
  std::function<void(const Tensor& out, const std::vector<Tensor>& in)> cpu = nullptr;
  // The gradient of the loss by each input, given that by the output, dy. Like the op itself it is an expression of
  // Vars: ops of functional.h, or other calls.
  Gradient vjp = nullptr;
  // So it is an op like any other: it may run earlier, later or beside others, or not at all where nobody reads `out`.
  // If not, all ops before it in the step are queued before it, and those after it after it.
  bool touches_its_arguments_alone = true;
};

// A new value that a function of the user's computes from `inputs`, used in a step like that of any op:
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
// `out` is uninitialized; an input may be Var(), an empty tensor. Errors, which name the op: unsupported without a
// function for the device, or, in backward, without a vjp; device_mismatch for an input that lies elsewhere; device if
// a launch was refused; in backward invalid_argument, shape_mismatch and dtype_mismatch for what vjp has returned.
Var call(const std::string& name, const CallOutput& output, const std::vector<Var>& inputs, CallFunctions functions,
         std::source_location where = std::source_location::current());

}  // namespace giro::nn
