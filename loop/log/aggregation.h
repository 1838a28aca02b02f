#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// How the values that an entry took in the records of a history become one. By name:
//   last              the default of inner_loop and train_loop, as in ciclo: of an evaluation, its last batch alone
//   first, sum, min, max
//   mean              weighted by the samples of the records, or a metric's own counts (Logs::add_metric); of standard
//                     deviations the one of all elements together
//   unweighted_mean   each record counts the same
// or a callable of the values, std::span<const double> -> double; or one of these for each collection, where the others
// keep their last value: {{"metrics", "mean"}, {"losses", "sum"}}.
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

  // The values of an entry, one or more, each of a record that weighs so much: its samples, or what counts in it.
  struct Records {
    std::span<const double> values;
    std::span<const double> weights;
    std::span<const double> means = {};  // where the values are standard deviations, as many; else none
  };
  double operator()(const std::string& collection, const Records& records) const {
    return reduce_(collection, records);
  }

 private:
  std::function<double(const std::string&, const Records&)> reduce_;
};

// One value for each entry of a history. A record weighs as much as its own step had samples. Of a metric with counts,
// records in which nothing counts are left out, and the value is NaN where there is no other; its counts and means are
// no entries of the result. Error(invalid_argument) for a metric that has them in some records only.
Logs aggregate(const History& history, const Aggregation& aggregation);
// And the last array of each output, which cannot be aggregated.
Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation);
// As the first, for those who still pass how far the loop has come.
inline Logs aggregate(const History& history, const Elapsed&, const Aggregation& aggregation) {
  return aggregate(history, aggregation);
}

}  // namespace giro
