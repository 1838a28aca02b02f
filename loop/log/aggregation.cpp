#include <giro/loop/log/aggregation.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro {
namespace {

using Values = std::span<const double>;

double sum(Values values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double weighted_mean(Values values, Values weights) {
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0) / sum(weights);
}

double mean(const Aggregation::Records& records) {
  const auto& [values, own_weights, means, logarithms] = records;
  const std::vector<double> equal(sum(own_weights) > 0 ? 0 : values.size(), 1);
  const Values weights = equal.empty() ? own_weights : equal;
  if (!logarithms.empty()) return std::exp(weighted_mean(logarithms, weights));
  if (means.empty()) return weighted_mean(values, weights);
  std::vector<double> squares;  // mean square of each record
  for (std::size_t i = 0; i < values.size(); ++i) squares.push_back(values[i] * values[i] + means[i] * means[i]);
  const double mean = weighted_mean(means, weights);
  const double variance = weighted_mean(squares, weights) - mean * mean;
  return std::sqrt(variance < 0 ? 0 : variance);  // unlike std::max, this keeps a NaN
}

using Records = Aggregation::Records;

const std::map<std::string, double (*)(const Records&)> kByName{
    {"last", [](const Records& records) { return records.values.back(); }},
    {"first", [](const Records& records) { return records.values.front(); }},
    {"mean", mean},
    {"unweighted_mean",
     [](const Records& records) { return sum(records.values) / static_cast<double>(records.values.size()); }},
    {"sum", [](const Records& records) { return sum(records.values); }},
    {"min", [](const Records& records) { return *std::min_element(records.values.begin(), records.values.end()); }},
    {"max", [](const Records& records) { return *std::max_element(records.values.begin(), records.values.end()); }},
};

// Whether the entry only serves to merge a metric (Logs::add_metric).
bool is_merge_data(const Logs& logs, const Logs::Entry& entry) {
  if (entry.collection != detail::kCounts && entry.collection != detail::kMeans &&
      entry.collection != detail::kLogarithms) {
    return false;
  }
  const std::size_t slash = entry.name.find('/');
  return slash != entry.name.npos && logs.schema().find(entry.name.substr(0, slash), entry.name.substr(slash + 1));
}

// Aggregates a metric with counts over a history.
double aggregate_counted(const History& history, const Logs& latest, const Logs::Entry& entry,
                         const Aggregation& aggregation) {
  const std::string key = entry.collection + "." + entry.name;
  const std::string merged = detail::name_in_counts(entry.collection, entry.name);
  const auto path_in = [&](std::string_view collection) { return fmt::format("{}.{}", collection, merged); };
  auto [values, counts] = history.collect(key, path_in(detail::kCounts));
  const auto column_of = [&](std::string_view collection) {
    if (!latest.schema().find(collection, merged)) return std::vector<double>();
    return std::vector<double>(history.collect(key, path_in(collection))[1]);
  };
  std::vector<double> means = column_of(detail::kMeans), logarithms = column_of(detail::kLogarithms);
  const std::size_t records = history.column(key).size();
  const auto fits = [&](const std::vector<double>& column) { return column.empty() || column.size() == records; };
  if (values.size() != records || !fits(means) || !fits(logarithms)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the metric '{}' has counts in {} of its {} records, expected all or none", key,
                            values.size(), records));
  }
  std::size_t counting = 0;
  for (std::size_t i = 0; i < records; ++i) {
    if (!(counts[i] > 0)) continue;
    values[counting] = values[i];
    counts[counting] = counts[i];
    if (!means.empty()) means[counting] = means[i];
    if (!logarithms.empty()) logarithms[counting] = logarithms[i];
    ++counting;
  }
  if (counting == 0) return std::numeric_limits<double>::quiet_NaN();
  values.resize(counting);
  counts.resize(counting);
  if (!means.empty()) means.resize(counting);
  if (!logarithms.empty()) logarithms.resize(counting);
  return aggregation(entry.collection, {.values = values, .weights = counts, .means = means, .logarithms = logarithms});
}

}  // namespace

Aggregation::Aggregation(const std::string& name) {
  const auto found = kByName.find(name);
  if (found == kByName.end()) {
    std::vector<std::string> known;
    for (const auto& [other, reduce] : kByName) known.push_back(other);
    throw Error(ErrorCode::not_found, fmt::format("no aggregation '{}'{}", name, suggestion(name, known)));
  }
  reduce_ = [reduce = found->second](const std::string&, const Records& records) { return reduce(records); };
}

Aggregation::Aggregation(std::initializer_list<std::pair<std::string, Aggregation>> collections)
    : reduce_([by_collection = std::map<std::string, Aggregation>(collections.begin(), collections.end())](
                  const std::string& collection, const Records& records) {
        const auto found = by_collection.find(collection);
        return found == by_collection.end() ? records.values.back() : found->second(collection, records);
      }) {}

Logs aggregate(const History& history, const Aggregation& aggregation) {
  Logs result;
  const Logs latest = history.latest();
  for (const Logs::Entry& entry : latest.entries()) {
    if (is_merge_data(latest, entry)) continue;
    if (latest.schema().find(detail::kCounts, detail::name_in_counts(entry.collection, entry.name))) {
      result.add_entry(entry.collection, entry.name, aggregate_counted(history, latest, entry, aggregation));
      continue;
    }
    const auto [values, samples] =
        history.collect(entry.collection + "." + entry.name, std::string("elapsed.step_samples"));
    result.add_entry(entry.collection, entry.name,
                     aggregation(entry.collection, {.values = values, .weights = samples}));
  }
  return result;
}

Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation) {
  Logs result = aggregate(history, aggregation);
  result.merge(outputs.latest_arrays());
  return result;
}

}  // namespace giro
