#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/not_copied.h>

namespace giro {

namespace detail {
struct TraceRecord;
}

// Records where this process spends its time, from construction until stop(): the spans (span.h) of all threads,
// including giro's own, and the GPU time of each graph launch. View the file with https://ui.perfetto.dev or
// chrome://tracing. A trace contains the spans that begin and end within it.
//
//   giro::Trace trace;
//   train();
//   trace.write("trace.json");
class Trace : detail::NotCopied {
 public:
  // Starts a trace that takes at most about `max_bytes` of memory: later spans are counted and dropped.
  // Error(invalid_argument) if one is running in this process.
  explicit Trace(std::size_t max_bytes = std::size_t{64} << 20);
  ~Trace();

  // Ends the trace; waits for the launches seen so far. Errors: device.
  void stop();
  // Ends the trace if it is running, and writes the file atomically, creating its directory if missing. `otherData` in
  // the file holds the numbers of spans written and dropped, and the trace's duration in microseconds. Errors: device;
  // io.
  void write(const std::string& path, FileSystem& files = *posix_file_system());

  // For a trace that has ended.
  std::int64_t num_spans() const noexcept;
  std::int64_t num_dropped() const noexcept;

 private:
  std::shared_ptr<detail::TraceRecord> record_;  // null while it runs
};

}  // namespace giro
