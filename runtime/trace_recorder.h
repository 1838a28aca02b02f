#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/span.h>

namespace giro::detail {

// The contents of a trace. Times are nanoseconds of a steady clock.
struct TraceRecord {
  struct Name {
    std::string category, name;
  };
  struct Event {
    std::int64_t begin, end;
    const char* key;  // of `value`, or null
    std::int64_t value;
    std::uint32_t name, track;  // positions
  };

  std::int64_t begin = 0, end = 0;
  std::deque<Name> names;
  std::vector<std::string> tracks;  // threads and streams of devices, by name
  std::deque<Event> events;
  std::int64_t dropped = 0;  // because there was no memory left
};

// The process's only sink of spans: it keeps them while a trace runs, and forwards them as NVTX ranges while a profile
// does.
class TraceRecorder final : public SpanSink {
 public:
  static TraceRecorder& instance();
  static std::int64_t now() noexcept;

  // Error(invalid_argument) if one is running.
  void start(std::size_t max_bytes);
  // From now on is_recording() is false, but events may still be added.
  void close() noexcept;
  // The trace recorded since start(). Call once for each start().
  std::shared_ptr<TraceRecord> stop() noexcept;
  bool is_recording() noexcept;
  void set_ranges(bool on) noexcept;

  SpanStart begin(const char* category, const char* name) noexcept override;
  void end(const SpanStart& begun, const char* key, std::int64_t value) noexcept override;

  // Adds a span of a device's stream, on the track of that name. Times before the trace's beginning are clamped to it.
  void add(const std::string& track, const char* category, const char* name, std::int64_t begin, std::int64_t end,
           const char* key, std::int64_t value) noexcept;

 private:
  void update_sink() noexcept;
  bool take(std::size_t bytes) noexcept;
  std::uint32_t name_of(const char* category, const char* name);
  std::uint32_t track_of_thread();
  std::uint32_t track_of(const std::string& name);
  void push(const TraceRecord::Event& event);

  std::mutex mutex_;
  std::uint32_t run_ = 0;                // traces so far
  std::shared_ptr<TraceRecord> record_;  // of the running trace, or null
  std::size_t bytes_left_ = 0;
  // The positions of the record's names, by their category and name in it.
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> names_;
  std::map<std::string, std::uint32_t> tracks_;
  bool has_ranges_ = false;
  bool is_closed_ = false;
};

}  // namespace giro::detail
