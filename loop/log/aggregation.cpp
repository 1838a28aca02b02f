#include <giro/loop/log/aggregation.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <vector>

#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro {
namespace {

using Values = std::span<const double>;

double sum(Values values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double weighted_mean(Values values, Values samples) {
  const double weight = sum(samples);
  if (!(weight > 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("mean: expected steps of 1 sample or more (Elapsed::step_samples), found {}", weight));
  }
  return std::inner_product(values.begin(), values.end(), samples.begin(), 0.0) / weight;
}

const std::map<std::string, double (*)(Values, Values)> kByName{
    {"last", [](Values values, Values) { return values.back(); }},
    {"first", [](Values values, Values) { return values.front(); }},
    {"mean", weighted_mean},
    {"unweighted_mean", [](Values values, Values) { return sum(values) / static_cast<double>(values.size()); }},
    {"sum", [](Values values, Values) { return sum(values); }},
    {"min", [](Values values, Values) { return *std::min_element(values.begin(), values.end()); }},
    {"max", [](Values values, Values) { return *std::max_element(values.begin(), values.end()); }},
};

}  // namespace

Aggregation::Aggregation(const std::string& name) {
  const auto found = kByName.find(name);
  if (found == kByName.end()) {
    std::vector<std::string> known;
    for (const auto& [other, reduce] : kByName) known.push_back(other);
    throw Error(ErrorCode::not_found, fmt::format("no aggregation '{}'{}", name, suggestion(name, known)));
  }
  reduce_ = [reduce = found->second](const std::string&, Values values, Values samples) {
    return reduce(values, samples);
  };
}

Aggregation::Aggregation(std::initializer_list<std::pair<std::string, Aggregation>> collections)
    : reduce_([by_collection = std::map<std::string, Aggregation>(collections.begin(), collections.end())](
                  const std::string& collection, Values values, Values samples) {
        const auto found = by_collection.find(collection);
        return found == by_collection.end() ? values.back() : found->second(collection, values, samples);
      }) {}

Logs aggregate(const History& history, const Aggregation& aggregation) {
  Logs result;
  const Logs latest = history.latest();
  for (const Logs::Entry& entry : latest.entries()) {
    const auto [values, samples] =
        history.collect(entry.collection + "." + entry.name, std::string("elapsed.step_samples"));
    result.add_entry(entry.collection, entry.name, aggregation(entry.collection, values, samples));
  }
  return result;
}

Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation) {
  Logs result = aggregate(history, aggregation);
  result.merge(outputs.latest_arrays());
  return result;
}

}  // namespace giro
