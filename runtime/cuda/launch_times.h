#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <giro/runtime/span.h>

#include "runtime/cuda/handle.h"
#include "runtime/internal/backend.h"

namespace giro::cuda {

// How long launches take on the device, for the running trace. A pair of events around each launch measures it. One
// more event at a stream's first launch, which the host waits for, relates the device's time to the host's.
class LaunchTimes {
 public:
  static LaunchTimes& instance();

  // Calls launch(), which launches a graph of `times` repetitions on the stream.
  template <class F>
  void time(detail::StreamImpl& stream, std::int64_t times, F&& launch) {
    if (!detail::is_watched() || !begin(stream)) return launch();
    launch();
    end(stream, times);
  }
  // Adds the launches that are not in the trace yet, waiting for all of them, and forgets the streams. Error(device).
  void finish();

 private:
  using Event = Handle<cudaEvent_t, cudaEventDestroy>;
  struct Launch {
    Event begin, end;
    std::int64_t times;
  };
  struct Track {
    std::string name;
    std::deque<Launch> launches = {};  // not added yet
    Event open = {};                   // the begin of the launch in progress
    Event latest = {};                 // a point on the device,
    double latest_time = 0;            // and when that was, in nanoseconds of the trace's clock
    std::vector<Event> spare = {};
  };

  // Whether a trace is running and the launch happens now, rather than being recorded.
  bool begin(detail::StreamImpl& stream);
  void end(detail::StreamImpl& stream, std::int64_t times);
  Track& track_of(detail::StreamImpl& stream);
  static Event take_event(Track& track);
  void add_first(Track& track);

  std::mutex mutex_;
  std::map<const detail::StreamImpl*, Track> tracks_;
};

}  // namespace giro::cuda
