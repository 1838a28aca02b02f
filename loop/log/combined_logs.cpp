#include <giro/loop/log/combined_logs.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/log/outputs.h>
#include <giro/runtime/files/archive.h>

#include "loop/log/history_records.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

using Rule = LogSchema::Rule;

namespace detail {

// The numbers of one entry in several steps as one; see CombinedLogs.
class CombinedEntry {
 public:
  struct Step {
    double value;
    double weight;                         // the metric's count, or the samples of the step
    std::optional<double> mean = {};       // of a standard deviation
    std::optional<double> logarithm = {};  // of a perplexity
  };

  explicit CombinedEntry(LogSchema::Rule rule = LogSchema::Rule::mean) : rule_(rule) {}

  void add(const Step& step) {
    const auto& [value, weight, mean, logarithm] = step;
    last_ = value;
    const double summed = logarithm.value_or(value);
    steps_ += 1;
    sum_ += summed;
    weighted_sum_ += weight * summed;
    if (mean && weight > 0) {
      // Sums of squares about the mean do not lose the digits that the mean has in common with the values.
      const double difference = *mean - mean_, share = weight / (weight_ + weight);
      squares_ += weight * value * value + difference * difference * weight_ * share;
      mean_ += difference * share;
    }
    weight_ += weight;
    kind_ = mean ? Kind::deviation : logarithm ? Kind::perplexity : Kind::plain;
  }

  double value() const {
    if (rule_ == Rule::last) return last_;
    if (rule_ == Rule::sum) return sum_;
    if (kind_ == Kind::deviation) return std::sqrt(squares_ / weight_);
    const double mean = weight_ > 0 ? weighted_sum_ / weight_ : sum_ / steps_;
    return kind_ == Kind::perplexity ? std::exp(mean) : mean;
  }

  double last() const noexcept { return last_; }
  LogSchema::Rule rule() const noexcept { return rule_; }

  void persist(Archive& archive) {
    auto rule = static_cast<std::uint8_t>(rule_), kind = static_cast<std::uint8_t>(kind_);
    archive("rule", rule)("kind", kind)("last", last_)("steps", steps_)("sum", sum_)("weight", weight_);
    archive("weighted_sum", weighted_sum_)("mean", mean_)("squares", squares_);
    if (rule > static_cast<std::uint8_t>(Rule::sum) || kind > static_cast<std::uint8_t>(Kind::perplexity)) {
      throw_error(ErrorCode::corrupt_data, "a combined entry has the rule {} and the kind {}, expected 0 to 2", rule,
                  kind);
    }
    rule_ = static_cast<Rule>(rule);
    kind_ = static_cast<Kind>(kind);
  }

 private:
  enum class Kind : std::uint8_t { plain, deviation, perplexity };

  LogSchema::Rule rule_;
  Kind kind_ = Kind::plain;
  double last_ = std::numeric_limits<double>::quiet_NaN();
  double steps_ = 0, sum_ = 0;            // each step has weight 1
  double weight_ = 0, weighted_sum_ = 0;  // of the values, or of the logarithms
  double mean_ = 0, squares_ = 0;         // of the elements of a deviation; the sum of squares about this mean
};

}  // namespace detail

struct CombinedLogs::Data {
  struct Entry {
    detail::CombinedEntry numbers;
    std::optional<HostArray> array = {};
  };
  // Where the data of an entry are in logs.
  struct Source {
    std::size_t value;
    LogSchema::Parts parts;
    std::size_t entry;  // here
  };

  Entry& entry_of(const LogSchema& logged, std::size_t i) { return entries[position_of(logged, i)]; }
  std::size_t position_of(const LogSchema& logged, std::size_t i) {
    const auto& [collection, name] = logged[i];
    if (const auto known = schema.find(collection, name)) return *known;
    entries.push_back({.numbers = detail::CombinedEntry(logged.rule(i))});
    schema.add(collection, name, logged.role(i));
    return entries.size() - 1;
  }
  void find_sources(const LogSchema& logged) {
    sources.clear();
    const std::vector<LogSchema::Parts> parts = logged.parts();
    for (std::size_t i = 0; i < logged.size(); ++i) {
      if (logged.role(i).part == LogSchema::Part::value) sources.push_back({i, parts[i], position_of(logged, i)});
    }
    latest = logged;
  }

  LogSchema schema;
  std::vector<Entry> entries;
  // Most steps log the same entries, so these are kept from one to the next.
  LogSchema latest;
  std::vector<Source> sources;
};

CombinedLogs::CombinedLogs(const CombinedLogs& other)
    : data_(other.data_ ? std::make_shared<Data>(*other.data_) : nullptr) {}
CombinedLogs& CombinedLogs::operator=(const CombinedLogs& other) { return *this = CombinedLogs(other); }

CombinedLogs::Data& CombinedLogs::data() {
  if (!data_) data_ = std::make_shared<Data>();
  return *data_;
}
const CombinedLogs::Data& CombinedLogs::data() const {
  static const Data none;
  return data_ ? *data_ : none;
}

void CombinedLogs::add(const Logs& logs, std::int64_t samples) {
  Data& all = data();
  if (!(logs.schema() == all.latest)) all.find_sources(logs.schema());
  const auto number = [&](const std::optional<std::size_t>& entry) {
    return entry ? std::optional(logs.value(*entry)) : std::nullopt;
  };
  for (const Data::Source& source : all.sources) {
    if (!logs.values()[source.value].is_scalar() && is_array(logs.entries()[source.value])) continue;
    const std::optional<double> count = number(source.parts.count);
    if (count && !(*count > 0)) continue;
    all.entries[source.entry].numbers.add({.value = logs.value(source.value),
                                           .weight = count.value_or(static_cast<double>(samples)),
                                           .mean = number(source.parts.mean),
                                           .logarithm = number(source.parts.logarithm)});
  }
}

void CombinedLogs::add_arrays(const Logs& logs) {
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    if (!is_array(entry)) continue;
    Data::Entry& combined = data().entry_of(logs.schema(), i);
    const HostArray& array = *entry.value.array();
    if (combined.numbers.rule() != Rule::sum || !combined.array) {
      combined.array = array;
      continue;
    }
    const HostArray& before = *combined.array;
    const bool same_shape = before.shape() == array.shape();
    if (!same_shape || before.dtype() != array.dtype()) {
      throw_error(same_shape ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                  "the total '{}' cannot be added up: it is {}{}, but {}{} in an earlier step", entry.name,
                  name_of(array.dtype()), to_string(array.shape()), name_of(before.dtype()), to_string(before.shape()));
    }
    const Stream cpu(Device::cpu());
    combined.array = HostArray::copy_of((nn::Var(before.tensor(), cpu) + nn::Var(array.tensor(), cpu)).value(), cpu);
  }
}

const LogSchema& CombinedLogs::schema() const noexcept { return data().schema; }

LogValue CombinedLogs::value(std::size_t entry) const {
  const Data::Entry& combined = data().entries.at(entry);
  if (combined.array) return *combined.array;
  return combined.numbers.value();
}

double CombinedLogs::last(std::size_t entry) const { return data().entries.at(entry).numbers.last(); }

Logs CombinedLogs::logs() const {
  Logs logs;
  for (std::size_t i = 0; i < schema().size(); ++i) {
    logs.add(schema()[i].collection, schema()[i].name, schema().role(i).of_result(), value(i));
  }
  return logs;
}

void CombinedLogs::persist(Archive& archive) {
  struct Named {
    std::string collection, name;
    detail::CombinedEntry numbers;
    void persist(Archive& inner) { inner("collection", collection)("name", name)("numbers", numbers); }
  };
  std::vector<Named> entries;
  for (std::size_t i = 0; i < schema().size(); ++i) {
    entries.push_back({schema()[i].collection, schema()[i].name, data().entries[i].numbers});
  }
  archive("entries", entries);
  if (!archive.is_reading()) return;
  *this = CombinedLogs();
  for (Named& entry : entries) {
    if (schema().find(entry.collection, entry.name)) {
      throw_error(ErrorCode::corrupt_data, "the combined entry '{}.{}' is there twice", entry.collection, entry.name);
    }
    data().schema.add(entry.collection, entry.name, {.rule = entry.numbers.rule()});
    data().entries.push_back({.numbers = entry.numbers});
  }
}

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

  Logs results;
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
    results.add(key.collection, key.name, all.names.role(i).of_result(), value);
  }
  return results;
}

Logs aggregate(const History& history, const Outputs& outputs, const Aggregation& aggregation) {
  Logs result = aggregate(history, aggregation);
  CombinedLogs arrays;
  for (const Outputs::Record& record : outputs) arrays.add_arrays(record.logs);
  result.merge(arrays.logs());
  return result;
}

}  // namespace giro
