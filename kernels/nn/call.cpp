#include <giro/kernels/nn/call.h>

#include <fmt/format.h>

#include <memory>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/native_stream.h>

#include "runtime/internal/backend.h"
#include "runtime/internal/op_scope.h"
#include "runtime/internal/recording.h"

namespace giro::nn {
namespace {

std::string quoted(const std::string& name) { return fmt::format("nn::call '{}'", name); }

void accumulate_terms(const std::string& name, const std::vector<Var>& inputs, std::vector<Var> terms) {
  if (terms.size() != inputs.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: its vjp gives {} gradients, expected {}, one for each input", quoted(name),
                            terms.size(), inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Var& input = inputs[i];
    if (!input.requires_grad()) continue;
    const Tensor &term = terms[i].value(), &like = input.value();
    const auto fail = [&](ErrorCode code) {
      throw Error(code, fmt::format("{}: its vjp gives {} as the gradient of input {}, expected {}", quoted(name),
                                    term || term.count() == 0 ? to_string(term) : "none", i, to_string(like)));
    };
    if (!term && like) fail(ErrorCode::invalid_argument);
    if (term.shape() != like.shape()) fail(ErrorCode::shape_mismatch);
    if (term.dtype() != like.dtype()) fail(ErrorCode::dtype_mismatch);
    if (term.device() != like.device()) fail(ErrorCode::device_mismatch);
    input.accumulate(std::move(terms[i]));
  }
}

// The way back: y and the inputs are constants to it, so that it notes no way back of its own.
Var::Backward backward_of(const std::string& name, const std::vector<Var>& inputs, const CallFunctions& functions) {
  return [name, inputs, vjp = functions.vjp](const Tensor& y, const Tensor& dy, const Stream& stream) {
    if (!vjp) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: a gradient through it is wanted, but it has no vjp", quoted(name)));
    }
    std::vector<Var> constants;
    for (const Var& input : inputs) constants.emplace_back(input.value(), stream);
    accumulate_terms(name, inputs, std::move(vjp(Var(y, stream), Var(dy, stream), constants).terms()));
  };
}

class UserCall final : public detail::OpCall {
 public:
  UserCall(std::string name, Tensor out, std::vector<Tensor> in, CallFunctions functions)
      : in(std::move(in)), name_(std::move(name)), out_(std::move(out)), functions_(std::move(functions)) {}

  void move(const detail::MemoryMoves& moves) override {
    out_ = moves(out_);
    for (Tensor& tensor : in) tensor = moves(tensor);
  }
  void emit(const Stream& stream) const override {
    if (stream.device().is_cuda()) {
      functions_.cuda(out_, in, cuda_stream(stream));
      cuda::check_queued(quoted(name_), stream);
    } else {
      submit(stream, [out = out_, in = in, cpu = functions_.cpu] { cpu(out, in); });
    }
  }

  bool touches_only_its_tensors() const override { return false; }

  std::vector<Tensor> in;

 private:
  std::string name_;
  Tensor out_;
  CallFunctions functions_;
};

}  // namespace

Var call(const std::string& name, const CallOutput& output, const std::vector<Var>& inputs, CallFunctions functions) {
  Var y = Var::computed(output.dtype, output.shape, inputs, backward_of(name, inputs, functions));
  const Stream& stream = y.stream();
  const bool on_cuda = stream.device().is_cuda();
  if (on_cuda ? !functions.cuda : !functions.cpu) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: its inputs lie on {}, and it has no function for {}", quoted(name),
                            to_string(stream.device()), on_cuda ? "CUDA (.cuda)" : "the CPU (.cpu)"));
  }
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(inputs[i].value());
    if (in.back() && in.back().device() != stream.device()) {
      throw Error(ErrorCode::device_mismatch, fmt::format("{}: input {} is {}, the stream is on {}", quoted(name), i,
                                                          to_string(in.back()), to_string(stream.device())));
    }
  }
  auto call = std::make_unique<UserCall>(name, y.value(), std::move(in), std::move(functions));
  if (detail::Recording::holds()) {
    const std::vector<Tensor>& reads = call->in;
    detail::Recording::current()->hold({Program::Node(name, {y.value()}, reads), stream, std::move(call)});
  } else {
    const detail::OpScope op(name.c_str());
    call->emit(stream);
  }
  return y;
}

}  // namespace giro::nn
