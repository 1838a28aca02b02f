#include <giro/loop/log/logs.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <giro/loop/log/log_ring.h>
#include <giro/loop/log/outputs.h>

#include "kernels/elementwise.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

LogSchema with_role(const LogSchema& schema, std::size_t entry, const LogSchema::Role& role) {
  LogSchema changed;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    changed.add(schema[i].collection, schema[i].name, i == entry ? role : schema.role(i));
  }
  return changed;
}

double to_number(const Tensor& scalar, const Stream& stream) {
  const Buffer storage = stream.allocate(sizeof(double));
  const Tensor number(storage.place(), DType::f64, {}, stream.device());
  ops::cast(number, scalar, stream);
  return to_host<double>(number, stream).front();
}

// Describes a value that is not a scalar, for messages.
std::string describe(const LogValue& value) {
  if (const nn::Var* var = value.scalar()) return to_string(var->value());
  return fmt::format("{}{}", name_of(value.array()->dtype()), to_string(value.array()->shape()));
}

nn::Direction direction_of(const LogValue& value) {
  const nn::Var* const var = value.scalar();
  return var != nullptr ? var->direction() : nn::Direction::unknown;
}

}  // namespace

std::string detail::name_in_counts(std::string_view collection, std::string_view name) {
  return fmt::format("{}/{}", collection, name);
}

LogValue::LogValue(nn::Var scalar) : held_(std::make_shared<const nn::Var>(std::move(scalar))), kind_(Kind::scalar) {}
LogValue::LogValue(std::shared_ptr<const LogRow> row, std::size_t entry)
    : held_(std::move(row)), entry_(static_cast<std::uint32_t>(entry)), kind_(Kind::sent) {}
LogValue::LogValue(HostArray array) : held_(std::make_shared<const HostArray>(std::move(array))), kind_(Kind::array) {}

void LogValue::set_inexact(std::string digits) {
  held_ = std::make_shared<const std::string>(std::move(digits));
  kind_ = Kind::inexact;
}

void LogValue::drop_held() noexcept {
  held_.reset();
  kind_ = Kind::number;
}

template <class T>
const T* LogValue::held(Kind kind) const {
  return kind_ == kind ? static_cast<const T*>(held_.get()) : nullptr;
}

const std::string* LogValue::inexact() const& { return held<std::string>(Kind::inexact); }
const nn::Var* LogValue::scalar() const& { return held<nn::Var>(Kind::scalar); }
const HostArray* LogValue::array() const& { return held<HostArray>(Kind::array); }

bool LogValue::has_no_axis() const {
  if (const nn::Var* var = scalar()) return var->shape().rank() == 0;
  return array() == nullptr || array()->shape().rank() == 0;
}

bool LogValue::has_arrived() const {
  if (const auto* row = held<LogRow>(Kind::sent)) return row->ready();
  return array() == nullptr || array()->ready();
}

double LogValue::fetch() const {
  if (inexact() != nullptr) throw_invalid("a log entry is {}, expected a number that a double can hold", *inexact());
  if (const auto* row = held<LogRow>(Kind::sent)) return row->value(entry_);
  if (!is_scalar()) throw_error(ErrorCode::shape_mismatch, "a log entry is {}, expected a scalar", describe(*this));
  if (const nn::Var* var = scalar()) return to_number(var->value(), var->stream());
  return to_number(array()->tensor(), Stream(Device::cpu()));
}

Logs::Logs(LogSchema schema, std::vector<LogValue> values) : schema_(std::move(schema)), values_(std::move(values)) {
  if (values_.size() != schema_.size()) {
    throw_invalid("logs with {} names were given {} values", schema_.size(), values_.size());
  }
}

std::span<LogValue> Logs::values() & noexcept { return values_; }
std::vector<LogValue> Logs::values() && { return std::move(values_); }

Logs& Logs::add_entry(std::string_view collection, std::string_view name, LogValue value, LogSchema::Rule rule) {
  const LogSchema::Role role{.rule = rule, .direction = direction_of(value)};
  add(collection, name, role, std::move(value));
  return *this;
}

std::size_t Logs::add(std::string_view collection, std::string_view name, LogSchema::Role role, LogValue&& value) {
  if (const std::string* digits = value.inexact()) {
    throw_invalid("the log entry '{}.{}' is {}, expected an integer that a double can hold, such as any up to 2^53",
                  collection, name, *digits);
  }
  if (const nn::Var* const var = value.scalar(); var != nullptr && var->is_empty()) {
    throw_invalid("the log entry '{}.{}' is an empty nn::Var, expected a value", collection, name);
  }
  // Reserved first, so that each name has a value even if an allocation throws.
  if (values_.size() == values_.capacity()) values_.reserve(std::max<std::size_t>(4, 2 * values_.size()));
  // Usually the same names are logged in the same order, so this is the next one, and new.
  if (!schema_.add_if_next(collection, name, role)) {
    if (const auto entry = schema_.find(collection, name)) {
      if (schema_.role(*entry) != role) schema_ = with_role(schema_, *entry, role);
      values_[*entry] = std::move(value);
      return *entry;
    }
    schema_.add(collection, name, role);
  }
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

Logs& Logs::add_counted(std::string_view collection, std::string_view name, const nn::Metric& metric) {
  using Part = LogSchema::Part;
  const bool is_total = metric.count.is_empty();
  const LogSchema::Rule rule = is_total ? LogSchema::Rule::sum : LogSchema::Rule::mean;
  const std::size_t entry = add(collection, name, {.rule = rule, .direction = metric.value.direction()}, metric.value);
  if (is_total) return *this;
  const std::string merged = detail::name_in_counts(collection, name);
  add(detail::kCounts, merged, {Part::count, entry}, metric.count);
  if (!metric.mean.is_empty()) add(detail::kMeans, merged, {Part::mean, entry}, metric.mean);
  if (!metric.logarithm.is_empty()) add(detail::kLogarithms, merged, {Part::logarithm, entry}, metric.logarithm);
  return *this;
}

Logs& Logs::add_loss(std::string_view name, LogValue value, bool also_metric) {
  if (also_metric) add("metrics", name, {.direction = nn::Direction::lower}, LogValue(value));
  return add_entry("losses", name, std::move(value));
}

Logs& Logs::add_metrics(NamedValues metrics) { return add_entries("metrics", std::move(metrics)); }

Logs& Logs::add_stateful_metrics(NamedValues metrics) { return add_entries("stateful_metrics", std::move(metrics)); }

Logs& Logs::add_outputs(NamedValues outputs) { return add_entries("outputs", std::move(outputs)); }

Logs& Logs::add_losses(NamedValues losses, bool also_metric) {
  for (auto& [name, value] : losses) add_loss(name, std::move(value), also_metric);
  return *this;
}

Logs& Logs::add_entries(std::string_view collection, NamedValues values) {
  for (auto& [name, value] : values) add_entry(collection, name, std::move(value));
  return *this;
}

void Logs::merge(Logs other) {
  if (empty() || schema_ == other.schema_) {
    *this = std::move(other);
    return;
  }
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < other.values_.size(); ++i) {
    const LogSchema::Key& key = other.schema()[i];
    positions.push_back(
        add(key.collection, key.name, other.schema().role(i).among(positions), std::move(other.values_[i])));
  }
}

Logs Logs::numbers() const {
  Logs numbers;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Entry entry = entries()[i];
    positions.push_back(is_array(entry)
                            ? LogSchema::kNone
                            : numbers.add(entry.collection, entry.name, schema_.role(i).among(positions), value(i)));
  }
  return numbers;
}

void Logs::fetch() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const nn::Var* const var = values_[i].scalar();
    if (var == nullptr) continue;
    if (values_[i].is_scalar() || schema()[i].collection != "outputs") {
      values_[i] = value(i);
    } else {
      values_[i] = HostArray::copy_of(var->value(), var->stream());
    }
  }
}

void Logs::clear() noexcept {
  schema_ = LogSchema();
  values_.clear();
}

HostArray Logs::output(std::string_view name) const {
  if (const std::optional<std::size_t> entry = schema_.find("outputs", name)) {
    const LogValue& value = values_[*entry];
    if (const HostArray* array = value.array()) return *array;
    if (const nn::Var* var = value.scalar()) return HostArray::copy_of(var->value(), var->stream());
    return HostArray::scalar(value.value());
  }
  std::vector<std::string> known;
  for (const Entry& entry : entries()) {
    if (entry.collection == "outputs") known.push_back(entry.name);
  }
  throw_error(ErrorCode::not_found, "there is no output '{}'{}", name,
              known.empty() ? ": none is logged" : suggestion(name, known));
}

double Logs::entry_value(std::string_view key) const {
  const std::optional<std::size_t> found = schema_.find(key);
  if (!found) {
    std::vector<std::string> known;
    for (const Entry& entry : entries()) {
      known.push_back(key.find('.') == key.npos ? entry.name : entry.collection + "." + entry.name);
    }
    throw_error(ErrorCode::not_found, "no log entry '{}'{}", key,
                known.empty() ? ": nothing is logged" : suggestion(key, known));
  }
  return value(*found);
}

double Logs::value(std::size_t entry) const {
  const LogValue& value = values_[entry];
  if (!value.is_scalar()) {
    throw_error(ErrorCode::shape_mismatch, "the log entry '{}' is {}, expected a scalar", schema()[entry].path(),
                describe(value));
  }
  return value.value();
}

bool Logs::ready() const {
  return std::all_of(values_.begin(), values_.end(), [](const LogValue& value) { return value.ready(); });
}

}  // namespace giro
