#include <giro/runtime/files/trace.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "runtime/backend.h"
#include "runtime/text.h"
#include "runtime/trace_recorder.h"

namespace giro {
namespace {

using detail::TraceRecord, detail::TraceRecorder;

constexpr std::size_t kPieceBytes = 1 << 20;

// Microseconds with nanosecond digits, so that nested spans stay nested.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1'000, nanoseconds % 1'000);
}

// By track, with enclosing spans before the spans within them.
std::vector<const TraceRecord::Event*> in_order(const TraceRecord& record) {
  std::vector<const TraceRecord::Event*> events;
  events.reserve(record.events.size());
  for (const TraceRecord::Event& event : record.events) events.push_back(&event);
  std::ranges::stable_sort(events, {},
                           [](const auto* event) { return std::tuple(event->track, event->begin, -event->end); });
  return events;
}

void write_json(const TraceRecord& record, FileSystem::Writer& out) {
  const auto process = getpid();
  std::string text = fmt::format(
      R"({{"displayTimeUnit":"ns","otherData":{{"spans":{},"dropped":{},"duration_us":{}}},"traceEvents":[)",
      record.events.size(), record.dropped, microseconds(record.end - record.begin));
  text += fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":"giro"}}}})", process);
  for (std::size_t track = 0; track < record.tracks.size(); ++track) {
    text += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
        process, track + 1, json_string(record.tracks[track]));
  }
  std::vector<std::string> names;  // as written in the file
  for (const auto& [category, name] : record.names) {
    names.push_back(fmt::format(R"("name":{},"cat":{})", json_string(name), json_string(category)));
  }
  for (const TraceRecord::Event* event : in_order(record)) {
    fmt::format_to(std::back_inserter(text),
                   ",\n"
                   R"({{"ph":"X",{},"pid":{},"tid":{},"ts":{},"dur":{})",
                   names[event->name - 1], process, event->track + 1, microseconds(event->begin - record.begin),
                   microseconds(event->end - event->begin));
    if (event->key != nullptr) text += fmt::format(R"(,"args":{{{}:{}}})", json_string(event->key), event->value);
    text += '}';
    if (text.size() < kPieceBytes) continue;
    out.write(text.data(), text.size());
    text.clear();
  }
  text += "]}\n";
  out.write(text.data(), text.size());
}

}  // namespace

Trace::Trace(std::size_t max_bytes) { TraceRecorder::instance().start(max_bytes); }

Trace::~Trace() {
  try {
    stop();
  } catch (...) {
    // A caller that wants the error calls stop().
  }
}

void Trace::stop() {
  if (record_) return;
  TraceRecorder::instance().close();
  try {
    cuda::finish_launch_times();
  } catch (...) {
    record_ = TraceRecorder::instance().stop();
    throw;
  }
  record_ = TraceRecorder::instance().stop();
}

void Trace::write(const std::string& path, FileSystem& files) {
  stop();
  replace_file(files, path, [&](FileSystem::Writer& out) { write_json(*record_, out); });
}

std::int64_t Trace::num_spans() const noexcept {
  return record_ ? static_cast<std::int64_t>(record_->events.size()) : 0;
}
std::int64_t Trace::num_dropped() const noexcept { return record_ ? record_->dropped : 0; }

}  // namespace giro
