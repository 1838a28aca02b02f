#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/program.h>
#include <giro/runtime/stream.h>

#include "runtime/internal/memory_moves.h"

namespace giro {
class Arena;
}

namespace giro::detail {

// An op as a program holds it: what it will queue, with arguments of its own, so that the values it reads and writes
// may be given other addresses first.
class OpCall {
 public:
  virtual ~OpCall() = default;
  virtual void move(const MemoryMoves& moves) = 0;
  virtual void emit(const Stream& stream) const = 0;
  // Whether `write` may lie where `read` does, given that nothing else uses what is read there any more.
  virtual bool can_write_over(const Tensor& /*write*/, const Tensor& /*read*/) const { return false; }
};

// A number or a choice lies nowhere. A type that holds tensors, or one of options without any, has an overload of its
// own beside it.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
T moved(T value, const MemoryMoves&) {
  return value;
}
inline Tensor moved(const Tensor& tensor, const MemoryMoves& moves) { return moves(tensor); }

// A backend's function with its arguments, for the stream that it takes last.
template <class... Parameters>
class FunctionCall final : public OpCall {
 public:
  using Function = void (*)(Parameters...);  // the last: const Stream&

  template <class... Arguments>
  explicit FunctionCall(Function function, const Arguments&... arguments)
      : arguments(arguments...), function_(function) {}

  void move(const MemoryMoves& moves) override {
    std::apply([&](auto&... each) { ((each = moved(each, moves)), ...); }, arguments);
  }
  void emit(const Stream& stream) const override {
    std::apply([&](const auto&... each) { function_(each..., stream); }, arguments);
  }

  template <class... Each, std::size_t... I>
  static auto all_but_last(std::index_sequence<I...>)
      -> std::tuple<std::decay_t<std::tuple_element_t<I, std::tuple<Each...>>>...>;
  decltype(all_but_last<Parameters...>(std::make_index_sequence<sizeof...(Parameters) - 1>())) arguments;

 private:
  Function function_;
};

template <class... Parameters, class... Arguments>
std::shared_ptr<OpCall> call_of(void (*function)(Parameters...), const Arguments&... arguments) {
  return std::make_shared<FunctionCall<Parameters...>>(function, arguments...);
}

// A closure with the tensors that it is to be called with: f(tensors..., stream).
template <class F, std::size_t kTensors>
class ClosureCall final : public OpCall {
 public:
  ClosureCall(F f, const std::array<Tensor, kTensors>& tensors) : f_(std::move(f)), tensors_(tensors) {}

  void move(const MemoryMoves& moves) override {
    for (Tensor& tensor : tensors_) tensor = moves(tensor);
  }
  void emit(const Stream& stream) const override {
    std::apply([&](const auto&... each) { f_(each..., stream); }, tensors_);
  }

 private:
  F f_;
  std::array<Tensor, kTensors> tensors_;
};

struct HeldOp {
  enum class Kind {
    op,          // of giro's, which a rule may replace
    collective,  // of all ranks: it never runs by itself
    event        // between streams; no node of the program
  };

  // Nothing else changes places with it.
  bool keeps_its_place() const noexcept { return kind != Kind::op; }

  Program::Node node;
  Stream stream;
  std::shared_ptr<OpCall> call;
  Kind kind = Kind::op;
};

// What may replace ops by others before they are queued. `trace` holds the temporaries.
class Rewriter {
 public:
  virtual ~Rewriter() = default;
  virtual void rewrite(std::vector<HeldOp>& ops, const Arena& trace) const = 0;
};

}  // namespace giro::detail
