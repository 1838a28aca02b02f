#include "runtime/internal/backend.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/cpu/stream.h"
#include "runtime/internal/arena.h"

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

DeviceInfo device_info() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  const bool known = pages > 0 && page_size > 0;
  return {Device::cpu(), "CPU", known ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size) : 0};
}

std::optional<std::size_t> free_memory() {
  // On Linux, includes the memory that caches would give back.
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kilobytes) == 1) return std::size_t{1'024} * kilobytes;
  }
  const long pages = sysconf(_SC_AVPHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  if (pages < 0 || page_size < 0) return {};
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size);
}

std::shared_ptr<detail::StreamImpl> create_stream() { return std::make_shared<CpuStream>(); }

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  return std::make_shared<Sequence>(parts);
}

}  // namespace giro::cpu
