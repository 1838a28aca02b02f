#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
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

// How long launches took on the device, for the trace that runs: by a pair of events around each, and one more at a
// stream's first, which the host waits for, so that it knows what time it was there.
class LaunchTimes {
 public:
  static LaunchTimes& of_process();

  // Calls launch(), which launches a graph of so many repetitions on the stream.
  template <class F>
  void time(detail::StreamImpl& stream, std::int64_t times, F&& launch) {
    if (!detail::is_watched() || !begin(stream)) return launch();
    launch();
    end(stream, times);
  }
  // Adds what has not been added to the trace, and forgets the streams; waits for all of it. Error(device).
  void finish();

 private:
  using Event = Handle<cudaEvent_t, cudaEventDestroy>;
  struct Launch {
    Event begin, end;
    std::int64_t times;
  };
  struct Track {
    std::string name;
    std::deque<Launch> launches = {};  // that have not been added
    Event open = {};                   // the begin of the one that is being made
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
