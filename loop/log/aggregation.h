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
//   last, first, sum, min, max
//   mean              weighted by the samples of the records
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
      : reduce_([f = std::move(f)](const std::string&, std::span<const double> values,
                                   std::span<const double>) mutable { return f(values); }) {}
  Aggregation(std::initializer_list<std::pair<std::string, Aggregation>> collections);

  // Of at least one value, each of a record of so many samples. Error(invalid_argument) for the mean of no samples.
  double operator()(const std::string& collection, std::span<const double> values,
                    std::span<const double> samples) const {
    return reduce_(collection, values, samples);
  }

 private:
  std::function<double(const std::string&, std::span<const double>, std::span<const double>)> reduce_;
};

// One value for each entry of a history. A record weighs as much as its own step had samples.
Logs aggregate(const History& history, const Aggregation& aggregation);
// And the last array of each output, which cannot be aggregated.
Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation);
// As the first, for those who still pass how far the loop has come.
inline Logs aggregate(const History& history, const Elapsed&, const Aggregation& aggregation) {
  return aggregate(history, aggregation);
}

}  // namespace giro
