#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/log/outputs.h>

namespace giro {

// How the values of an entry are reduced to one over the records of a history. By name:
//   mean              the default: each entry by its own rule (CombinedLogs). Metrics and losses become those of all
//                     elements together, stateful metrics and results of an earlier aggregation keep the newest value
//   unweighted_mean   each record counts the same
//   last, first, sum, min, max
// or a callable on the values, std::span<const double> -> double; or one of these for each collection, where other
// collections keep their last value: {{"metrics", "mean"}, {"losses", "sum"}}.
class Aggregation {
 public:
  // Error(not_found) naming the nearest name.
  Aggregation(const char* name) : Aggregation(std::string(name)) {}
  Aggregation(const std::string& name);
  template <class F>
    requires std::is_invocable_r_v<double, F&, std::span<const double>>
  Aggregation(F f)
      : reduce_([f = std::move(f)](const std::string&, const Records& records) mutable { return f(records.values); }) {}
  Aggregation(std::initializer_list<std::pair<std::string, Aggregation>> collections);

  // The values of an entry, at least one, and the weight of each: the samples of its record, or the metric's count.
  struct Records {
    std::span<const double> values;
    std::span<const double> weights;
    std::span<const double> means = {};       // for standard deviations: one mean per value; else none
    std::span<const double> logarithms = {};  // for perplexities: one per value; else none
    LogSchema::Rule rule = LogSchema::Rule::mean;
  };
  double operator()(const std::string& collection, const Records& records) const {
    return reduce_(collection, records);
  }

 private:
  std::function<double(const std::string&, const Records&)> reduce_;
};

// One value for each entry of a history. The weight of a record is the number of samples of its step. For a metric with
// counts, records with count 0 are left out, and the value is NaN if no record remains; the counts and means do not
// appear in the result. Logged in another loop the values are results, of which the newest counts: they are never
// averaged over evaluations. Error(invalid_argument) for a metric that has counts or means in some records only.
Logs aggregate(const History& history, const Aggregation& aggregation = "mean");
// Also adds one array for each output that has any (CombinedLogs), whatever the aggregation.
Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation = "mean");

}  // namespace giro
