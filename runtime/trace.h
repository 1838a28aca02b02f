#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <giro/runtime/file_system.h>

namespace giro {

namespace detail {
struct TraceRecord;
}

// What this process spends its time on, from here until stop(): the spans (span.h) of all threads, giro's own among
// them, and on a GPU how long each launch of a graph took there. It is written for https://ui.perfetto.dev and
// chrome://tracing. A span is in the trace if it lies within it whole.
//
//   giro::Trace trace;
//   train();
//   trace.write("trace.json");
class Trace {
 public:
  // Begins one, which takes at most about `max_bytes` of memory: what comes after that is counted and left out.
  // Error(invalid_argument) where one is running in this process.
  explicit Trace(std::size_t max_bytes = std::size_t{64} << 20);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Ends it; waits for the launches that it has seen. Errors: device.
  void stop();
  // Ends it, if need be, and writes the file, at once or not at all, in a directory that is made where there is none.
  // `otherData` tells how many spans it holds, how many were left out, and how long the trace was, in microseconds.
  // Errors: device; io.
  void write(const std::string& path, FileSystem& files = *posix_file_system());

  // Of one that has ended.
  std::int64_t num_spans() const noexcept;
  std::int64_t num_dropped() const noexcept;

 private:
  std::shared_ptr<detail::TraceRecord> record_;  // null while it runs
};

}  // namespace giro
