#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/host_array.h>

namespace giro {

// What is logged in the collection "outputs" may be an array (HostArray, or a Var on its device); what is logged in
// any other is a number. Where such an array goes:
//   Outputs                 keeps it, on the host; LoopResult::outputs has those of a loop
//   History, loggers, bars  leave it out: they are for numbers
//   aggregate               gives the last of each name, whatever becomes of the numbers
// An output that is a number is kept by all of them.
inline bool is_array(const Logs::Entry& entry) { return entry.collection == "outputs" && !entry.value.is_scalar(); }

// The outputs of a run, arrays and numbers. A record for each step that has any.
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
  std::vector<Record>::const_iterator begin() const noexcept { return records_.begin(); }
  std::vector<Record>::const_iterator end() const noexcept { return records_.end(); }

  // The last array of each name that has one, in the order of first mention. Waits for nothing.
  Logs latest_arrays() const;

  // The arrays of a name, in the order of the records that have it; a number is an f64 array of shape (). An array
  // that has not arrived waits when it is read. Error(not_found) naming the nearest name.
  std::vector<HostArray> collect(std::string_view name) const;
  // The same as one array, along axis 0: all rows of the arrays (rows, ...); a number is one row. Waits. Errors:
  // not_found; shape_mismatch and dtype_mismatch naming two records that differ.
  HostArray concatenate(std::string_view name) const;

 private:
  std::vector<Record> records_;
};

}  // namespace giro
