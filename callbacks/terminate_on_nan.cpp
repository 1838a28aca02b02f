#include <giro/callbacks/terminate_on_nan.h>

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "loop/log/record_text.h"
#include "runtime/throw_error.h"

namespace giro {

bool TerminateOnNan::operator()(const Elapsed& elapsed, const Logs& logs) {
  report_->clear();
  const auto check = [&](const std::string& name, double value) {
    if (std::isfinite(value)) return;
    if (report_->empty()) first_ = name;
    *report_ += fmt::format("{}{} is {}", report_->empty() ? "" : ", ", name, detail::without_nan_sign(value));
  };
  for (const std::string& key : keys_) {
    try {
      check(key, logs.entry_value(key));
    } catch (const Error& error) {
      throw_error(error.code(), "terminate_on_nan: {}", error.what());
    }
  }
  for (std::size_t i = 0; keys_.empty() && i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    const std::string& collection = entry.collection;
    if (collection != "losses" && collection != "metrics" && collection != "stateful_metrics") continue;
    check(collection + "." + entry.name, entry.value.value());
  }
  if (report_->empty()) return false;
  *report_ += fmt::format(" at step {}", elapsed.steps);
  return true;
}

bool TerminateOnNan::is_found_on_any(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks) {
  bool is_here = false;
  try {
    is_here = (*this)(elapsed, logs);
  } catch (const Error& error) {
    // Ranks other than 0 need not log what comes from the host.
    if (error.code() != ErrorCode::not_found || ranks == nullptr || ranks->rank() == 0) throw;
  }
  const std::optional<int> rank = rank_with(ranks, is_here);
  if (rank && !is_here) {
    first_ = fmt::format("an entry of rank {}", *rank);
    *report_ = fmt::format("{} is not finite at step {}", first_, elapsed.steps);
  }
  return rank.has_value();
}

}  // namespace giro
