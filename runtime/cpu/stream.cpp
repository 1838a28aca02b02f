#include "runtime/cpu/stream.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "runtime/arena.h"
#include "runtime/program/graph_impl.h"

namespace giro::cpu {
namespace {

class CallList final : public detail::GraphImpl {
 public:
  explicit CallList(std::vector<CpuStream::Call> calls) : GraphImpl(Device::cpu()), calls_(std::move(calls)) {}

  void replay(detail::StreamImpl& stream, std::int64_t times) override {
    auto& cpu_stream = static_cast<CpuStream&>(stream);
    for (std::int64_t i = 0; i < times; ++i) {
      for (const CpuStream::Call& call : calls_) cpu_stream.replay(call);
    }
  }
  void prepare(std::int64_t) override {}
  std::size_t num_nodes() const override { return calls_.size(); }

 private:
  std::vector<CpuStream::Call> calls_;
};

class Sequence final : public detail::GraphImpl {
 public:
  explicit Sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts)
      : GraphImpl(Device::cpu()), parts_(parts) {}

  void replay(detail::StreamImpl& stream, std::int64_t times) override {
    for (std::int64_t i = 0; i < times; ++i) {
      for (const auto& part : parts_) part->replay(stream, 1);
    }
  }
  void prepare(std::int64_t) override {}
  std::size_t num_nodes() const override {
    return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& part) { return sum + part->num_nodes(); });
  }

 private:
  std::vector<std::shared_ptr<detail::GraphImpl>> parts_;
};

// Work on the CPU is done when it is queued.
class CpuEvent final : public detail::EventImpl {
 public:
  void record(detail::StreamImpl&) override {}
  bool query() const override { return true; }
  void synchronize() const override {}
};

}  // namespace

CpuStream::CpuStream() : StreamImpl(Device::cpu(), std::make_shared<Arena>(Device::cpu(), Arena::Kind::stream)) {}

void CpuStream::copy(void* dst, const void* src, std::size_t bytes) {
  const detail::OpScope op("copy");
  submit([=] { std::memmove(dst, src, bytes); });
}

void CpuStream::fill(void* dst, unsigned char value, std::size_t bytes) {
  const detail::OpScope op("fill");
  submit([=] { std::memset(dst, value, bytes); });
}

double CpuStream::time(const std::function<void()>& queue) {
  const auto begin = std::chrono::steady_clock::now();
  queue();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::shared_ptr<detail::EventImpl> CpuStream::create_event() { return std::make_shared<CpuEvent>(); }

std::shared_ptr<detail::GraphImpl> CpuStream::end_recording() {
  return std::make_shared<CallList>(std::exchange(calls_, {}));
}

void CpuStream::abandon_recording() noexcept { calls_.clear(); }

std::shared_ptr<detail::StreamImpl> create_stream() { return std::make_shared<CpuStream>(); }

void submit_function(const Stream& stream, std::function<void()> function) { cpu::submit(stream, std::move(function)); }

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  return std::make_shared<Sequence>(parts);
}

}  // namespace giro::cpu
