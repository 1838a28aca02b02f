#include <giro/loop/log/aggregation.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include <giro/loop/log/combined_logs.h>

#include "loop/log/combined_entry.h"
#include "loop/log/history_records.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using Values = std::span<const double>;

double sum(Values values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// By the entry's own rule.
double combined(const Aggregation::Records& records) {
  const auto& [values, weights, means, logarithms, rule] = records;
  detail::CombinedEntry entry(rule);
  for (std::size_t i = 0; i < values.size(); ++i) {
    entry.add({.value = values[i],
               .weight = weights[i],
               .mean = means.empty() ? std::nullopt : std::optional(means[i]),
               .logarithm = logarithms.empty() ? std::nullopt : std::optional(logarithms[i])});
  }
  return entry.value();
}

using Records = Aggregation::Records;

const std::map<std::string, double (*)(const Records&)> kByName{
    {"last", [](const Records& records) { return records.values.back(); }},
    {"first", [](const Records& records) { return records.values.front(); }},
    {"mean", combined},
    {"unweighted_mean",
     [](const Records& records) { return sum(records.values) / static_cast<double>(records.values.size()); }},
    {"sum", [](const Records& records) { return sum(records.values); }},
    {"min", [](const Records& records) { return *std::min_element(records.values.begin(), records.values.end()); }},
    {"max", [](const Records& records) { return *std::max_element(records.values.begin(), records.values.end()); }},
};

// Leaves out the records in which nothing counts.
void keep_counting(std::vector<std::vector<double>>& columns, const std::vector<double>& counts) {
  for (std::vector<double>& column : columns) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) column[kept++] = column[i];
    }
    column.resize(kept);
  }
}

}  // namespace

Aggregation::Aggregation(const std::string& name) {
  const auto found = kByName.find(name);
  if (found == kByName.end())
    throw_error(ErrorCode::not_found, "no aggregation '{}'{}", name, suggestion(name, kByName));
  reduce_ = [reduce = found->second](const std::string&, const Records& records) { return reduce(records); };
}

Aggregation::Aggregation(std::initializer_list<std::pair<std::string, Aggregation>> collections)
    : reduce_([by_collection = std::map<std::string, Aggregation>(collections.begin(), collections.end())](
                  const std::string& collection, const Records& records) {
        const auto found = by_collection.find(collection);
        return found == by_collection.end() ? records.values.back() : found->second(collection, records);
      }) {}

Logs aggregate(const History& history, const Aggregation& aggregation) {
  const History::Records& all = history.records();
  const auto is_logged = [&](std::size_t column) { return !all.columns[column].values.empty(); };
  const std::vector<LogSchema::Parts> all_parts = all.names.parts();

  LogSchema schema;
  std::vector<LogValue> results;
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    if (!is_logged(i) || all.names.role(i).part != LogSchema::Part::value) continue;
    using Source = History::Records::Source;
    const LogSchema::Key& key = all.names[i];
    LogSchema::Parts parts = all_parts[i];
    for (auto* part : {&parts.count, &parts.mean, &parts.logarithm}) {
      if (*part && !is_logged(**part)) part->reset();
    }
    std::vector<Source> sources{{false, i}, parts.count ? Source{false, *parts.count} : History::Records::kStepSamples};
    if (parts.mean) sources.push_back({false, *parts.mean});
    if (parts.logarithm) sources.push_back({false, *parts.logarithm});
    std::vector<std::vector<double>> columns = all.collect(sources);
    if (parts.count) {
      const std::size_t records = all.columns[i].values.size();
      if (columns[0].size() != records) {
        throw_invalid("the metric '{}' has counts in {} of its {} records, expected all or none", key.path(),
                      columns[0].size(), records);
      }
      keep_counting(columns, std::vector<double>(columns[1]));
    }
    const double value = columns[0].empty()
                             ? std::numeric_limits<double>::quiet_NaN()
                             : aggregation(key.collection, {.values = columns[0],
                                                            .weights = columns[1],
                                                            .means = parts.mean ? columns[2] : Values(),
                                                            .logarithms = parts.logarithm ? columns.back() : Values(),
                                                            .rule = all.names.rule(i)});
    schema.add(key.collection, key.name, all.names.role(i).of_result());
    results.emplace_back(value);
  }
  return Logs(std::move(schema), std::move(results));
}

Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation) {
  Logs result = aggregate(history, aggregation);
  CombinedLogs arrays;
  for (const Outputs::Record& record : outputs) arrays.add_arrays(record.logs);
  result.merge(arrays.logs());
  return result;
}

}  // namespace giro
