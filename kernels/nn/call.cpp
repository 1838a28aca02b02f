#include <giro/kernels/nn/call.h>

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include <giro/runtime/program/native_stream.h>

#include "runtime/backend.h"
#include "runtime/call_site.h"
#include "runtime/checksum.h"
#include "runtime/program/op.h"
#include "runtime/program/verify.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

std::string quoted(const std::string& name) { return fmt::format("nn::call '{}'", name); }

void check_terms(const std::string& name, const std::vector<Var>& inputs, const std::vector<Var>& terms) {
  if (terms.size() != inputs.size()) {
    throw_invalid("{}: its vjp returns {} gradients, expected {}, one for each input", quoted(name), terms.size(),
                  inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor &term = terms[i].value(), &like = inputs[i].value();
    const auto fail = [&](ErrorCode code) {
      throw_error(code, "{}: its vjp returns {} as the gradient of input {}, expected {}", quoted(name),
                  term || term.count() == 0 ? to_string(term) : "none", i, to_string(like));
    };
    if (!term && like) fail(ErrorCode::invalid_argument);
    if (term.shape() != like.shape()) fail(ErrorCode::shape_mismatch);
    if (term.dtype() != like.dtype() && term.dtype() != inputs[i].grad_dtype()) fail(ErrorCode::dtype_mismatch);
    if (term.device() != like.device()) fail(ErrorCode::device_mismatch);
  }
}

Gradient gradient_of(const std::string& name, const Gradient& vjp) {
  return [name, vjp](const Var& y, const Var& dy, const std::vector<Var>& in) {
    if (!vjp) {
      throw_error(ErrorCode::unsupported, "{}: a gradient through it is requested, but it has no vjp", quoted(name));
    }
    Gradients gradients = vjp(y, dy, in);
    check_terms(name, in, gradients.terms());
    return gradients;
  };
}

// The op that a program holds.
struct UserCall {
  Out out;
  std::vector<In> in;
  std::string name;
  decltype(CallFunctions::cuda) cuda;
  decltype(CallFunctions::cpu) cpu;
  std::source_location where;
};

std::string digits_of(const Tensor& values) {
  return detail::digits_of({std::string_view(static_cast<const char*>(values.raw()), values.bytes())});
}

void run(const UserCall& op, const Stream& stream) {
  // A replay would have to look their addresses up.
  const Tensor out = op.out.settled();
  std::vector<Tensor> in;
  for (const In& each : op.in) in.push_back(each.settled());
  if (stream.device().is_cuda()) {
    op.cuda(out, in, cuda_stream(stream));
    cuda::check_queued(quoted(op.name), stream);
  } else {
    submit(stream, [out, in = std::move(in), name = op.name, cpu = op.cpu, where = op.where] {
      if (!detail::verifies_programs()) return cpu(out, in);
      // What it changed, other ops may still read.
      std::vector<std::string> before;
      for (const Tensor& each : in) before.push_back(digits_of(each));
      cpu(out, in);
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (digits_of(in[i]) == before[i]) continue;
        const auto site = detail::CallSite::of_node(where);
        throw_invalid("{}: its function changed input {}, {}, which it may only read; expected it to write `out` alone",
                      quoted(name), i, to_string(in[i]));
      }
    });
  }
}

}  // namespace

Var call(const std::string& name, const CallOutput& output, const std::vector<Var>& inputs, CallFunctions functions,
         std::source_location where) {
  const detail::CallSite site(where);
  Var y = Var::computed(output.dtype, output.shape, inputs, gradient_of(name, functions.vjp));
  const Stream& stream = y.stream();
  const bool on_cuda = stream.device().is_cuda();
  if (on_cuda ? !functions.cuda : !functions.cpu) {
    throw_error(ErrorCode::unsupported, "{}: its inputs are on {}, but it has no function for {}", quoted(name),
                to_string(stream.device()), on_cuda ? "CUDA (.cuda)" : "the CPU (.cpu)");
  }
  UserCall op{y.value(), {}, name, std::move(functions.cuda), std::move(functions.cpu), detail::CallSite::where()};
  std::vector<In>& in = op.in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(inputs[i].value());
    if (in.back() && in.back().device() != stream.device()) {
      throw_error(ErrorCode::device_mismatch, "{}: input {} is {}, the stream is on {}", quoted(name), i,
                  to_string(in.back()), to_string(stream.device()));
    }
  }
  if (functions.is_pure) {
    queue(name, std::move(op), stream);
  } else if (!detail::Recording::is_dry()) {
    detail::record_opaque_op(name, {y.value()}, {in.begin(), in.end()});
    detail::run_op(name.c_str(), stream, [&] { run(op, stream); });
  }
  return y;
}

}  // namespace giro::nn
