#pragma once

#include <cstddef>
#include <deque>
#include <string_view>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/host_array.h>

namespace giro {

// The outputs of a run, arrays and numbers: what its logs have in the collection "outputs". A record for each step
// that has any.
class Outputs {
 public:
  struct Record {
    Elapsed elapsed;
    Logs logs;  // of the collection "outputs" alone
  };

  // Keeps the outputs of a step, if it has any. Does not wait: what is on a device is copied behind the work so far.
  // Errors: out_of_memory, device.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // Records.
  std::size_t size() const noexcept { return records_.size(); }
  std::deque<Record>::const_iterator begin() const noexcept { return records_.begin(); }
  std::deque<Record>::const_iterator end() const noexcept { return records_.end(); }

  // The arrays of a name, in the order of the records that have it; a number is an f64 array of shape (). An array
  // that has not arrived waits when it is read. Error(not_found) naming the nearest name.
  std::vector<HostArray> collect(std::string_view name) const;
  // The same as one array, along axis 0: all rows of the arrays (rows, ...); a number is one row. Waits. Errors:
  // not_found; shape_mismatch and dtype_mismatch naming two records that differ.
  HostArray concatenate(std::string_view name) const;

 private:
  std::deque<Record> records_;
};

}  // namespace giro
