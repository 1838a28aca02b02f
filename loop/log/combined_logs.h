#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>

namespace giro {

class Archive;

// The logs of several steps as one: what the values of each entry are together, by its rule (LogSchema::Rule):
//   mean   of a metric with counts (Logs::add_metric) the value of all elements: a mean weighted by the counts, the
//          standard deviation or the perplexity of all of them; NaN if nothing counts. Of another entry the mean,
//          weighted by the samples of the steps; where no step has samples, each counts the same
//   last   the newest value; of a metric with counts the newest one in which something counts
//   sum    of numbers and of arrays
// Of an array without the rule sum it is the newest one. Whatever combines logs asks this: aggregate, the progress
// bars, the outputs of giro::jaxloop, and your own loop:
//
//   giro::CombinedLogs combined;
//   for (const auto& [elapsed, logs] : history) combined.add(logs, elapsed.step_samples);
//   double loss = combined.logs().entry_value("loss");
class CombinedLogs {
 public:
  CombinedLogs() = default;
  CombinedLogs(const CombinedLogs& other);
  CombinedLogs(CombinedLogs&&) noexcept = default;
  CombinedLogs& operator=(const CombinedLogs& other);
  CombinedLogs& operator=(CombinedLogs&&) noexcept = default;

  // Adds the numbers of a step with so many samples. Waits for values that have not arrived. Errors: those of
  // Logs::value.
  void add(const Logs& logs, std::int64_t samples);
  // Adds the arrays of a step, on the host (Outputs). Waits for totals. Errors: shape_mismatch and dtype_mismatch for a
  // total that does not fit the earlier ones.
  void add_arrays(const Logs& logs);

  // The names of the entries in the order of first mention, without the counts and other data for merging metrics.
  const LogSchema& schema() const noexcept;
  // An entry, given by its position: a number or an array.
  LogValue value(std::size_t entry) const;
  // The newest number of an entry, whatever its rule; NaN if it has none.
  double last(std::size_t entry) const;
  // All entries. Logged in a step of another loop they are results, of which the newest counts: Rule::last.
  Logs logs() const;

  // Saves or restores the numbers.
  void persist(Archive& archive);

 private:
  struct Data;
  Data& data();
  const Data& data() const;

  std::shared_ptr<Data> data_;  // null: no entries yet
};

}  // namespace giro
