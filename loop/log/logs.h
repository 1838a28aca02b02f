#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/nn/var.h>
#include <giro/loop/log/log_schema.h>
#include <giro/runtime/host_array.h>

namespace giro {

class LogRow;

// A logged value: a host number; a value that a step computes on its device; a scalar that a step has sent to the host,
// which arrives when the device has computed it; or, in the collection "outputs", an array (see Outputs).
class LogValue {
 public:
  LogValue(double value) : number_(value) {}
  // Logs rejects an integer that a double cannot represent, as is the case for most integers beyond 2^53.
  template <std::integral T>
  LogValue(T value) : number_(static_cast<double>(value)) {
    if constexpr (sizeof(T) > 4) {
      if (!is_exact(value)) set_inexact(std::to_string(value));
    }
  }
  LogValue(nn::Var scalar);
  LogValue(std::shared_ptr<const LogRow> row, std::size_t entry);
  LogValue(HostArray array);

  // The host number, or null.
  const double* number() const& { return kind_ == Kind::number ? &number_ : nullptr; }
  const double* number() const&& = delete;
  void set(double number) {
    number_ = number;
    if (kind_ != Kind::number) drop_held();
  }
  // The integer that a double cannot represent, as text, or null.
  const std::string* inexact() const&;
  const std::string* inexact() const&& = delete;
  // The value on the device, of shape () unless it is an output, or null.
  const nn::Var* scalar() const&;
  const nn::Var* scalar() const&& = delete;
  // The array, or null.
  const HostArray* array() const&;
  const HostArray* array() const&& = delete;
  // Whether it is a single number, which value() returns.
  bool is_scalar() const { return kind_ == Kind::number || has_no_axis(); }
  // Whether value(), or the array's tensor(), returns without waiting for a value that was sent.
  bool ready() const { return kind_ == Kind::number || has_arrived(); }
  // The number; waits for the device if needed. Error(shape_mismatch) if it is not a scalar.
  double value() const { return kind_ == Kind::number ? number_ : fetch(); }

 private:
  void drop_held() noexcept;
  bool has_no_axis() const;
  bool has_arrived() const;
  double fetch() const;
  void set_inexact(std::string digits);
  // Whether a double can represent it: without its trailing zeros it must fit in 53 bits.
  template <std::integral T>
  static bool is_exact(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    if (value < T{0}) bits = std::make_unsigned_t<T>{0} - bits;
    return bits == 0 || std::bit_width(bits) - std::countr_zero(bits) <= std::numeric_limits<double>::digits;
  }

  // The value is number_, or what held_ points to, of the type given here.
  enum class Kind : std::uint8_t {
    number,
    scalar,   // nn::Var
    sent,     // LogRow, in entry_
    array,    // HostArray
    inexact,  // std::string
  };
  template <class T>
  const T* held(Kind kind) const;

  double number_ = 0;
  std::shared_ptr<const void> held_;
  std::uint32_t entry_ = 0;
  Kind kind_ = Kind::number;
};

// What a callback reports: collection -> entry -> value, in the order of first mention. Cheap to copy: copies share
// the names.
class Logs {
 public:
  struct Entry {
    const std::string& collection;
    const std::string& name;
    const LogValue& value;
  };
  class Entries;
  using NamedValues = std::vector<std::pair<std::string, LogValue>>;

  Logs() = default;
  // Logs with known names. Error(invalid_argument) if the number of values differs.
  Logs(LogSchema schema, std::vector<LogValue> values);

  // Sets an entry, replacing an earlier one of the same name. Each of these functions returns *this.
  // Error(invalid_argument) naming an entry with an integer that a double cannot represent.
  // `rule` says what the values of several steps are together (CombinedLogs); stateful metrics are their newest value.
  Logs& add_entry(std::string_view collection, std::string_view name, LogValue value,
                  LogSchema::Rule rule = LogSchema::Rule::mean);
  Logs& add_metric(std::string_view name, LogValue value) { return add_entry("metrics", name, std::move(value)); }
  Logs& add_stateful_metric(std::string_view name, LogValue value) {
    return add_entry("stateful_metrics", name, std::move(value));
  }
  // Metrics with a count of elements. Over several steps and ranks such a metric is that of all their elements together
  // (CombinedLogs). Adds the value, as an ordinary metric, and the entry counts."metrics/NAME"; for a standard
  // deviation also means."metrics/NAME"; for a perplexity, whose mean is exp of the mean of its logarithms, also
  // logarithms."metrics/NAME". The schema has the roles of these (LogSchema::Role); an entry with such a name that
  // add_entry makes has none. A metric without a count is a total: it adds only the value, with Rule::sum.
  Logs& add_metric(std::string_view name, const nn::Metric& metric) { return add_counted("metrics", name, metric); }
  Logs& add_stateful_metric(std::string_view name, const nn::Metric& metric) {
    return add_counted("stateful_metrics", name, metric);
  }
  // With `add_metric`, also adds it as a metric of the same name.
  Logs& add_loss(std::string_view name, LogValue value, bool add_metric = false);
  // A number or an array; see Outputs.
  Logs& add_output(std::string_view name, LogValue value) { return add_entry("outputs", name, std::move(value)); }
  // Such as a confusion matrix, which is added over steps.
  Logs& add_output(std::string_view name, const nn::Metric& metric) { return add_counted("outputs", name, metric); }

  // Several at once: add_metrics({{"loss", loss}, {"accuracy", accuracy}}).
  Logs& add_metrics(NamedValues metrics);
  Logs& add_stateful_metrics(NamedValues metrics);
  Logs& add_losses(NamedValues losses, bool add_metric = false);
  Logs& add_outputs(NamedValues outputs);

  // Adds or replaces an entry with this role. Returns its position.
  std::size_t add(std::string_view collection, std::string_view name, LogSchema::Role role, LogValue&& value);
  // Adds all entries of `other`; the last write wins.
  void merge(Logs other);
  // The same; returns itself.
  Logs& updates(Logs other) {
    merge(std::move(other));
    return *this;
  }

  // The entries as numbers, without arrays (Outputs). Waits for them. Error(shape_mismatch) naming an array that is not
  // an output.
  Logs numbers() const;
  // Replaces values on a device by their current values on the host: numbers, and copies of arrays. Waits for the
  // numbers. Error(shape_mismatch) naming an array that is not an output.
  void fetch();
  void clear() noexcept;

  // The value of an entry, by its name alone or as "collection.name". Error(not_found) naming the nearest entry;
  // Error(invalid_argument) if several collections have the name; Error(shape_mismatch) if it is not a scalar.
  double entry_value(std::string_view key) const;

  // The array of an output; a number is an f64 array of shape (). A value on a device is copied after the work queued
  // so far. Error(not_found) naming the nearest output.
  HostArray output(std::string_view name) const;

  // A range of Entry, with size() and operator[].
  Entries entries() const& noexcept;
  Entries entries() const&& = delete;
  // The value of an entry, given by its position. Error(shape_mismatch) naming an entry that is not a scalar.
  double value(std::size_t entry) const;
  const LogSchema& schema() const noexcept { return schema_; }
  const std::vector<LogValue>& values() const& noexcept { return values_; }
  std::span<LogValue> values() & noexcept;
  std::vector<LogValue> values() &&;
  bool empty() const noexcept { return schema_.size() == 0; }
  // Whether all values that were sent have arrived.
  bool ready() const;

 private:
  Logs& add_entries(std::string_view collection, NamedValues values);
  Logs& add_counted(std::string_view collection, std::string_view name, const nn::Metric& metric);

  friend class LogRing;  // sets the values of a row

  LogSchema schema_;
  std::vector<LogValue> values_;  // one per name of the schema
};

// A view of a Logs, which must outlive it unchanged.
class Logs::Entries {
 public:
  class Iterator {
   public:
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const Logs* logs, std::size_t entry) : logs_(logs), entry_(entry) {}
    Entry operator*() const { return Entries(*logs_)[entry_]; }
    Iterator& operator++() {
      ++entry_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++entry_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const Logs* logs_ = nullptr;
    std::size_t entry_ = 0;
  };

  explicit Entries(const Logs& logs) : logs_(&logs) {}
  std::size_t size() const noexcept { return logs_->values_.size(); }
  Entry operator[](std::size_t entry) const {
    const LogSchema::Key& key = logs_->schema_[entry];
    return {key.collection, key.name, logs_->values_[entry]};
  }
  Iterator begin() const { return {logs_, 0}; }
  Iterator end() const { return {logs_, size()}; }

 private:
  const Logs* logs_;
};

inline Logs::Entries Logs::entries() const& noexcept { return Entries(*this); }

inline Logs logs() { return {}; }

namespace detail {

// The collections that hold the data for merging a metric (Logs::add_metric), and the metric's name in them.
inline constexpr std::string_view kCounts = "counts", kMeans = "means", kLogarithms = "logarithms";
std::string name_in_counts(std::string_view collection, std::string_view name);

}  // namespace detail

}  // namespace giro
