#include "runtime/cuda/launch_times.h"

#include <cmath>
#include <utility>

#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"
#include "runtime/internal/profiling.h"
#include "runtime/internal/trace_recorder.h"

namespace giro::cuda {
namespace {

using detail::TraceRecorder;

// The most launches of a stream whose times are not known yet; this limits how far the host can run ahead of the
// device.
constexpr std::size_t kMaxInFlight = 256;

void record(cudaEvent_t event, detail::StreamImpl& stream) {
  check(cudaEventRecord(event, cuda_stream(stream).handle()), "cudaEventRecord");
}

}  // namespace

LaunchTimes& LaunchTimes::instance() {
  static LaunchTimes times;
  return times;
}

bool LaunchTimes::begin(detail::StreamImpl& stream) {
  if (stream.is_recording() || !TraceRecorder::instance().is_recording()) return false;
  const std::lock_guard lock(mutex_);
  if (!TraceRecorder::instance().is_recording()) return false;  // finish() would miss the launch
  Track& track = track_of(stream);
  Event event = take_event(track);
  record(event, stream);
  track.open = std::move(event);
  return true;
}

void LaunchTimes::end(detail::StreamImpl& stream, std::int64_t times) {
  const std::lock_guard lock(mutex_);
  const auto found = tracks_.find(&stream);
  if (found == tracks_.end()) return;  // the trace has ended meanwhile
  Track& track = found->second;
  Event event = take_event(track);
  record(event, stream);
  track.launches.push_back({std::move(track.open), std::move(event), times});
  if (track.launches.size() > kMaxInFlight) add_first(track);
}

LaunchTimes::Track& LaunchTimes::track_of(detail::StreamImpl& stream) {
  if (const auto found = tracks_.find(&stream); found != tracks_.end()) return found->second;
  Track track{.name = to_string(stream.device) + ", stream " + std::to_string(tracks_.size() + 1)};
  track.latest = take_event(track);
  record(track.latest, stream);
  check(cudaEventSynchronize(track.latest), "cudaEventSynchronize");
  track.latest_time = static_cast<double>(TraceRecorder::now());
  return tracks_.emplace(&stream, std::move(track)).first->second;
}

LaunchTimes::Event LaunchTimes::take_event(Track& track) {
  Event event;
  if (track.spare.empty()) {
    check(cudaEventCreateWithFlags(event.out(), cudaEventDefault), "cudaEventCreateWithFlags");
  } else {
    event = std::move(track.spare.back());
    track.spare.pop_back();
  }
  return event;
}

// Adds up times from event to event, since CUDA returns the time between two events as a float.
void LaunchTimes::add_first(Track& track) {
  Launch launch = std::move(track.launches.front());
  track.launches.pop_front();
  check(cudaEventSynchronize(launch.end), "cudaEventSynchronize");
  float until_begin = 0, until_end = 0;
  check(cudaEventElapsedTime(&until_begin, track.latest, launch.begin), "cudaEventElapsedTime");
  check(cudaEventElapsedTime(&until_end, launch.begin, launch.end), "cudaEventElapsedTime");
  const double begin = track.latest_time + 1e6 * static_cast<double>(until_begin);
  const double end = begin + 1e6 * static_cast<double>(until_end);
  TraceRecorder::instance().add(track.name, "device", "launch", std::llround(begin), std::llround(end), "times",
                                launch.times);
  track.spare.push_back(std::move(launch.begin));
  track.spare.push_back(std::exchange(track.latest, std::move(launch.end)));
  track.latest_time = end;
}

void LaunchTimes::finish() {
  const std::lock_guard lock(mutex_);
  auto tracks = std::exchange(tracks_, {});  // dropped even if the device has failed
  for (auto& [stream, track] : tracks) {
    while (!track.launches.empty()) add_first(track);
  }
}

void finish_launch_times() { LaunchTimes::instance().finish(); }

}  // namespace giro::cuda
