#include "runtime/cpu/stream.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "runtime/arena.h"
#include "runtime/program/graph_impl.h"

namespace giro::cpu {
namespace {

// The calls of a recording, or of several, one after the other.
class CallLists final : public detail::GraphImpl {
 public:
  using List = std::shared_ptr<const std::vector<CpuStream::Call>>;
  explicit CallLists(std::vector<List> lists) : GraphImpl(Device::cpu()), lists_(std::move(lists)) {}

  void replay(detail::StreamImpl& stream, std::int64_t times) override {
    auto& cpu_stream = static_cast<CpuStream&>(stream);
    for (std::int64_t i = 0; i < times; ++i) {
      for (const List& list : lists_) {
        for (const CpuStream::Call& call : *list) cpu_stream.replay(call);
      }
    }
  }
  void prepare(std::int64_t) override {}
  std::size_t num_nodes() const override {
    return std::accumulate(lists_.begin(), lists_.end(), std::size_t{0},
                           [](std::size_t sum, const List& list) { return sum + list->size(); });
  }
  const std::vector<List>& lists() const { return lists_; }

 private:
  std::vector<List> lists_;
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

std::shared_ptr<detail::EventImpl> CpuStream::create_event() { return std::make_shared<detail::EventImpl>(); }

std::shared_ptr<detail::GraphImpl> CpuStream::end_recording() {
  auto calls = std::make_shared<const std::vector<Call>>(std::exchange(calls_, {}));
  return std::make_shared<CallLists>(std::vector{CallLists::List(std::move(calls))});
}

void CpuStream::abandon_recording() noexcept { calls_.clear(); }

std::shared_ptr<detail::StreamImpl> create_stream() { return std::make_shared<CpuStream>(); }

void submit_function(const Stream& stream, std::function<void()> function) { cpu::submit(stream, std::move(function)); }

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  std::vector<CallLists::List> lists;
  for (const auto& part : parts) {
    const auto& of_part = static_cast<const CallLists&>(*part).lists();
    lists.insert(lists.end(), of_part.begin(), of_part.end());
  }
  return std::make_shared<CallLists>(std::move(lists));
}

}  // namespace giro::cpu
