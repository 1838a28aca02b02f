#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/runtime/host_array.h>

namespace giro {

class LogRing;

// The logs of one call of a step: a row of a ring (LogRing). Keeps its values once it is read.
class LogRow {
 public:
  ~LogRow();
  // Whether the device has written it.
  bool ready() const;
  // Each waits for the device if needed. Errors: device.
  double value(std::size_t column) const;
  const HostArray& array(std::size_t array) const;

 private:
  friend class LogRing;
  LogRow(std::shared_ptr<const LogRing> ring, std::int64_t number);
  void read() const;

  mutable std::shared_ptr<const LogRing> ring_;  // null once read
  std::int64_t number_;
  mutable std::vector<double> values_;
  mutable std::vector<HostArray> arrays_;
};

}  // namespace giro
