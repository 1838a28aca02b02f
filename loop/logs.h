#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/loop/log_ring.h>

namespace giro {

// A number that is logged: a host number; a scalar that a step computes on its device; or one that a step has sent to
// the host, which arrives when the device gets there.
class LogValue {
 public:
  LogValue(double value) : value_(value) {}
  LogValue(nn::Var scalar) : value_(std::move(scalar)) {}
  LogValue(std::shared_ptr<const LogRow> row, std::size_t column) : value_(Sent{std::move(row), column}) {}

  // The device scalar, or null.
  const nn::Var* scalar() const { return std::get_if<nn::Var>(&value_); }
  // Whether value() would not wait.
  bool ready() const;
  // The number; waits for the device if need be. Error(shape_mismatch) if the Var is no scalar.
  double value() const;

 private:
  struct Sent {
    std::shared_ptr<const LogRow> row;
    std::size_t column;
  };
  std::variant<double, nn::Var, Sent> value_;
};

// What a callback reports: collection -> entry -> value, in the order of first mention.
class Logs {
 public:
  struct Entry {
    std::string collection;
    std::string name;
    LogValue value;
  };

  // Sets an entry, in place of an earlier one of that name. Each returns itself.
  Logs& add_entry(const std::string& collection, const std::string& name, LogValue value);
  Logs& add_metric(const std::string& name, LogValue value) { return add_entry("metrics", name, std::move(value)); }
  Logs& add_stateful_metric(const std::string& name, LogValue value) {
    return add_entry("stateful_metrics", name, std::move(value));
  }
  // Also as a metric of the same name if asked for.
  Logs& add_loss(const std::string& name, LogValue value, bool add_metric = false);

  // Takes over all entries of `other`; the last write wins.
  void merge(const Logs& other);

  // The value of an entry, by its name alone or as "collection.name". Error(not_found) naming the nearest entry;
  // Error(invalid_argument) if several collections have the name.
  double entry_value(const std::string& key) const;

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::vector<Entry>& entries() noexcept { return entries_; }
  bool empty() const noexcept { return entries_.empty(); }
  // Whether all values are there: none would wait for the device.
  bool ready() const;

 private:
  std::vector<Entry> entries_;
};

inline Logs logs() { return {}; }

}  // namespace giro
