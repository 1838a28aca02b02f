#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {
class Arena;
}

namespace giro::detail {

// Maps blocks of memory that a program was traced with to their new addresses. Other addresses stay the same.
class MemoryMoves {
 public:
  void add(const char* from, std::size_t bytes, char* to) { blocks_[from] = {bytes, to}; }

  void* operator()(const void* address) const {
    const auto* const at = static_cast<const char*>(address);
    const auto after = blocks_.upper_bound(at);
    if (after != blocks_.begin()) {
      const auto& [from, block] = *std::prev(after);
      if (at < from + block.bytes) return block.to + (at - from);
    }
    return const_cast<char*>(at);
  }
  Tensor operator()(const Tensor& tensor) const {
    if (!tensor) return tensor;
    return {(*this)(tensor.raw()), tensor.dtype(), tensor.shape(), tensor.device()};
  }

 private:
  struct Block {
    std::size_t bytes;
    char* to;
  };
  std::map<const char*, Block, std::less<>> blocks_;
};

// An op held by a program: what it will queue, with its own copy of the arguments, so that the values it reads and
// writes can be given other addresses first.
class OpCall {
 public:
  virtual ~OpCall() = default;
  virtual void move(const MemoryMoves& moves) = 0;
  virtual void emit(const Stream& stream) const = 0;
  // Whether `write` may share the memory of `read`, if nothing else uses the value of `read` any more.
  virtual bool can_write_over(const Tensor& /*write*/, const Tensor& /*read*/) const { return false; }
};

// A closure and the tensors it is called with: f(tensors..., stream).
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
    op,          // can run by itself; a rule may replace it
    collective,  // of all ranks: it never runs by itself
    event        // between streams; not a node of the program
  };

  // No other op is moved across it.
  bool is_barrier() const noexcept { return kind != Kind::op; }

  Program::Node node;
  Stream stream;
  std::shared_ptr<OpCall> call;
  Kind kind = Kind::op;
};

// Replaces ops with others before they are queued. `trace` holds the temporaries.
using Rewrite = void (*)(std::vector<HeldOp>& ops, const Arena& trace);

}  // namespace giro::detail
