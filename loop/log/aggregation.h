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
//   last              the default of inner_loop and train_loop, as in ciclo; in an evaluation: its last batch only
//   first, sum, min, max
//   mean              weighted by the samples of the records, or by a metric's own counts (Logs::add_metric); standard
//                     deviations and perplexities become those of all elements together
//   unweighted_mean   each record counts the same
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
  };
  double operator()(const std::string& collection, const Records& records) const {
    return reduce_(collection, records);
  }

 private:
  std::function<double(const std::string&, const Records&)> reduce_;
};

// One value for each entry of a history. The weight of a record is the number of samples of its step. For a metric with
// counts, records with count 0 are left out, and the value is NaN if no record remains; the counts and means do not
// appear in the result. Error(invalid_argument) for a metric that has counts or means in some records only.
Logs aggregate(const History& history, const Aggregation& aggregation);
// Also adds the last array of each output, since arrays cannot be aggregated.
Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation);

}  // namespace giro
