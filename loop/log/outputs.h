#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/host_array.h>

namespace giro {

// An entry of the collection "outputs" may be an array (HostArray, or a Var on its device). Entries of other
// collections are numbers. Where an array goes:
//   Outputs                 keeps it, on the host; LoopResult::outputs has those of a loop
//   History, loggers, bars  leave it out: they are for numbers
//   aggregate               gives one array of each name, whatever the aggregation: of totals, such as confusion
//                           matrices, the sum, and of others the last one
// All of them keep an output that is a number.
inline bool is_array(const Logs::Entry& entry) { return entry.collection == "outputs" && !entry.value.is_scalar(); }

// The outputs of a run, arrays and numbers. One record for each step that has any.
class Outputs {
 public:
  struct Record {
    Elapsed elapsed;
    Logs logs;  // only the collection "outputs"
  };

  // Keeps the outputs of a step, if it has any. Does not wait: values on a device are copied after the work queued so
  // far. Errors: out_of_memory, device.
  void commit(const Elapsed& elapsed, const Logs& logs);

  // The number of records.
  std::size_t size() const noexcept { return records_.size(); }
  using Iterator = std::vector<Record>::const_iterator;
  Iterator begin() const& noexcept { return records_.begin(); }
  Iterator end() const& noexcept { return records_.end(); }
  Iterator begin() const&& = delete;
  Iterator end() const&& = delete;

  // The arrays of a name, in record order; a number is an f64 array of shape (). Reading an array that has not arrived
  // waits for it. Error(not_found) naming the nearest name.
  std::vector<HostArray> collect(std::string_view name) const;
  // The same as one array (rows, ...): all rows, joined along axis 0; a number is one row. Waits. Errors: not_found;
  // shape_mismatch and dtype_mismatch naming two records that differ.
  HostArray concatenate(std::string_view name) const;

 private:
  std::vector<Record> records_;
};

}  // namespace giro
