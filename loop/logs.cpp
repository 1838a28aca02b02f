#include <giro/loop/logs.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/kernels/elementwise.h>
#include <giro/runtime/error.h>

#include "runtime/text.h"

namespace giro {

bool LogValue::ready() const {
  const Sent* sent = std::get_if<Sent>(&value_);
  return sent == nullptr || sent->row->ready();
}

double LogValue::value() const {
  if (const double* number = std::get_if<double>(&value_)) return *number;
  if (const Sent* sent = std::get_if<Sent>(&value_)) return sent->row->value(sent->column);
  const nn::Var& var = std::get<nn::Var>(value_);
  if (var.shape() != Shape{}) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("a log entry is {}, expected a scalar", to_string(var.value())));
  }
  const Buffer storage = var.stream().allocate(sizeof(double));
  const Tensor number(storage.data(), DType::f64, {}, var.stream().device());
  cast(number, var.value(), var.stream());
  return to_host<double>(number, var.stream()).front();
}

Logs& Logs::add_entry(const std::string& collection, const std::string& name, LogValue value) {
  const auto same = [&](const Entry& entry) { return entry.name == name && entry.collection == collection; };
  if (const auto found = std::find_if(entries_.begin(), entries_.end(), same); found != entries_.end()) {
    found->value = std::move(value);
  } else {
    entries_.push_back({collection, name, std::move(value)});
  }
  return *this;
}

Logs& Logs::add_loss(const std::string& name, LogValue value, bool also_metric) {
  if (also_metric) add_metric(name, value);
  return add_entry("losses", name, std::move(value));
}

void Logs::merge(const Logs& other) {
  if (entries_.empty()) {
    entries_ = other.entries_;
    return;
  }
  for (const Entry& entry : other.entries_) add_entry(entry.collection, entry.name, entry.value);
}

double Logs::entry_value(const std::string& key) const {
  const Entry* found = nullptr;
  std::vector<std::string> known;
  for (const Entry& entry : entries_) {
    const std::string path = entry.collection + "." + entry.name;
    if (path == key) return entry.value.value();
    if (entry.name == key) {
      if (found != nullptr) {
        throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is in several collections: '{}.{}' and '{}'", key,
                                                             found->collection, found->name, path));
      }
      found = &entry;
    }
    known.push_back(key.find('.') == key.npos ? entry.name : path);
  }
  if (found == nullptr) {
    throw Error(ErrorCode::not_found, fmt::format("no log entry '{}'{}", key, suggestion(key, known)));
  }
  return found->value.value();
}

bool Logs::ready() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.value.ready(); });
}

}  // namespace giro
