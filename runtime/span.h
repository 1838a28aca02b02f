#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <string>

#include <giro/runtime/not_copied.h>

namespace giro {

namespace detail {

// Receives the spans of all threads: a trace, a profiler.
class SpanSink {
 public:
  struct SpanStart {
    std::int64_t time;
    std::uint32_t run, name;  // of a trace, or 0
    bool has_range;
  };
  virtual SpanStart begin(const char* category, const char* name) noexcept = 0;
  virtual void end(const SpanStart& begun, const char* key, std::int64_t value) noexcept = 0;

 protected:
  ~SpanSink() = default;
};
inline std::atomic<SpanSink*> span_sink = nullptr;  // null: nothing listens
inline bool is_watched() noexcept { return span_sink.load(std::memory_order_relaxed) != nullptr; }

}  // namespace detail

// Names what this thread does while an instance lives, for a trace (files/trace.h) and a listening profiler
// (profiler.h). Without either it costs one load. Spans of a thread nest. A number, e.g. the step, may be attached
// under `key`, a string literal.
//
//   const giro::Span span("my program", "augment", "step", elapsed.steps);
class Span : detail::NotCopied {
 public:
  Span(const char* category, const char* name, const char* key = nullptr, std::int64_t value = 0)
      : sink_(detail::span_sink.load(std::memory_order_acquire)) {
    if (sink_ != nullptr) [[unlikely]]
      begin(category, name, key, value);
  }
  // The name is computed only if something records it.
  template <std::invocable F>
  Span(const char* category, F&& name, const char* key = nullptr, std::int64_t value = 0)
      : sink_(detail::span_sink.load(std::memory_order_acquire)) {
    if (sink_ != nullptr) [[unlikely]]
      begin(category, std::string(name()).c_str(), key, value);
  }
  ~Span() {
    if (sink_ != nullptr) [[unlikely]]
      sink_->end(begun_, key_, value_);
  }

 private:
  void begin(const char* category, const char* name, const char* key, std::int64_t value) {
    key_ = key;
    value_ = value;
    begun_ = sink_->begin(category, name);
  }

  detail::SpanSink* const sink_;
  const char* key_;
  std::int64_t value_;
  detail::SpanSink::SpanStart begun_;
};

}  // namespace giro
