#include "runtime/trace_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

struct ThreadTrack {
  std::uint32_t run = 0, track = 0;
};
constinit thread_local ThreadTrack thread_track;

}  // namespace

TraceRecorder& TraceRecorder::instance() {
  static TraceRecorder* const recorder = new TraceRecorder;  // outlives every thread's last span
  return *recorder;
}

std::int64_t TraceRecorder::now() noexcept {
  using std::chrono::steady_clock, std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void TraceRecorder::start(std::size_t max_bytes) {
  const std::lock_guard lock(mutex_);
  if (record_) throw_invalid("a trace is already running in this process, expected one at a time");
  record_ = std::make_shared<TraceRecord>();
  bytes_left_ = max_bytes;
  names_.clear();
  tracks_.clear();
  is_closed_ = false;
  ++run_;
  update_sink();
  record_->begin = now();
}

std::shared_ptr<TraceRecord> TraceRecorder::stop() noexcept {
  const std::lock_guard lock(mutex_);
  record_->end = now();
  std::shared_ptr<TraceRecord> record = std::move(record_);
  update_sink();
  return record;
}

bool TraceRecorder::is_recording() noexcept {
  if (!is_watched()) return false;
  const std::lock_guard lock(mutex_);
  return record_ != nullptr && !is_closed_;
}

void TraceRecorder::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void TraceRecorder::set_ranges(bool on) noexcept {
  const std::lock_guard lock(mutex_);
  has_ranges_ = on;
  update_sink();
}

void TraceRecorder::update_sink() noexcept {
  span_sink.store(record_ || has_ranges_ ? this : nullptr, std::memory_order_release);
}

SpanSink::SpanStart TraceRecorder::begin(const char* category, const char* name) noexcept {
  SpanStart begun{};
  {
    const std::lock_guard lock(mutex_);
    begun.has_range = has_ranges_;
    if (record_) {
      try {
        begun.name = name_of(category, name);
        begun.run = run_;
      } catch (const std::exception&) {
        ++record_->dropped;
      }
    }
  }
  if (begun.has_range) cuda::push_range(name);
  begun.time = now();
  return begun;
}

void TraceRecorder::end(const SpanStart& begun, const char* key, std::int64_t value) noexcept {
  const std::int64_t end = now();
  if (begun.has_range) cuda::pop_range();
  if (begun.run == 0) return;
  const std::lock_guard lock(mutex_);
  if (!record_ || begun.run != run_) return;
  try {
    push({begun.time, end, key, value, begun.name, track_of_thread()});
  } catch (const std::exception&) {
    ++record_->dropped;
  }
}

void TraceRecorder::add(const std::string& track, const char* category, const char* name, std::int64_t begin,
                        std::int64_t end, const char* key, std::int64_t value) noexcept {
  const std::lock_guard lock(mutex_);
  if (!record_) return;
  try {
    begin = std::max(begin, record_->begin);
    push({begin, std::max(begin, end), key, value, name_of(category, name), track_of(track)});
  } catch (const std::exception&) {
    ++record_->dropped;
  }
}

bool TraceRecorder::take(std::size_t bytes) noexcept {
  if (bytes > bytes_left_) return false;
  bytes_left_ -= bytes;
  return true;
}

// Returns 0 if there is no memory left for the name.
std::uint32_t TraceRecorder::name_of(const char* category, const char* name) {
  const auto found = names_.find({category, name});
  if (found != names_.end()) return found->second;
  TraceRecord::Name added{category, name};
  // The text, and its entries in the record and in the map.
  if (!take(sizeof added + added.category.size() + added.name.size() + sizeof *found + 64)) return 0;
  const TraceRecord::Name& kept = record_->names.emplace_back(std::move(added));
  const auto position = static_cast<std::uint32_t>(record_->names.size());
  names_.try_emplace({kept.category, kept.name}, position);
  return position;
}

std::uint32_t TraceRecorder::track_of_thread() {
  if (thread_track.run != run_) {
    const bool is_main = gettid() == getpid();
    thread_track.track = track_of(is_main ? "main thread" : "thread " + std::to_string(gettid()));
    thread_track.run = run_;
  }
  return thread_track.track;
}

std::uint32_t TraceRecorder::track_of(const std::string& name) {
  const auto [found, is_new] = tracks_.emplace(name, static_cast<std::uint32_t>(record_->tracks.size()));
  if (is_new) record_->tracks.push_back(name);
  return found->second;
}

void TraceRecorder::push(const TraceRecord::Event& event) {
  if (event.name == 0 || !take(sizeof event)) {
    ++record_->dropped;
  } else {
    record_->events.push_back(event);
  }
}

}  // namespace giro::detail
