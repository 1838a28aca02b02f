#include <giro/loop/log/combined_logs.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/loop/log/outputs.h>
#include <giro/runtime/files/archive.h>

#include "loop/log/combined_entry.h"
#include "runtime/throw_error.h"

namespace giro {

using Rule = LogSchema::Rule;

void detail::CombinedEntry::add(const Step& step) {
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

double detail::CombinedEntry::value() const {
  if (rule_ == Rule::last) return last_;
  if (rule_ == Rule::sum) return sum_;
  if (kind_ == Kind::deviation) return std::sqrt(squares_ / weight_);
  const double mean = weight_ > 0 ? weighted_sum_ / weight_ : sum_ / steps_;
  return kind_ == Kind::perplexity ? std::exp(mean) : mean;
}

void detail::CombinedEntry::persist(Archive& archive) {
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
  LogSchema schema;
  std::vector<LogValue> values;
  for (std::size_t i = 0; i < data().schema.size(); ++i) {
    const auto& [collection, name] = data().schema[i];
    schema.add(collection, name, data().schema.role(i).of_result());
    values.push_back(value(i));
  }
  return Logs(std::move(schema), std::move(values));
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

}  // namespace giro
