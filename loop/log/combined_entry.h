#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include <giro/loop/log/log_schema.h>

namespace giro {

class Archive;

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
  void add(const Step& step);
  double value() const;
  double last() const noexcept { return last_; }
  LogSchema::Rule rule() const noexcept { return rule_; }
  void persist(Archive& archive);

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
}  // namespace giro
