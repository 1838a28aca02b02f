#include <giro/callbacks/early_stopping.h>

#include <fmt/format.h>

namespace giro {

EarlyStopping::EarlyStopping(const std::string& monitor, const EarlyStoppingOptions& options)
    : monitor_(monitor, options.mode, options.min_delta),
      patience_(options.patience),
      baseline_(options.baseline),
      restore_best_(options.restore_best) {
  if (const auto* evaluations = std::get_if<std::int64_t>(&patience_)) {
    if (*evaluations < 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("early_stopping '{}': patience is {}, expected at least 0", monitor, *evaluations));
    }
  } else if (const Period& period = std::get<Period>(patience_);
             !period.steps && !period.samples && !period.time && !period.date) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("early_stopping '{}': patience is an empty period, expected steps, samples or time", monitor));
  }
}

EarlyStopping::Verdict EarlyStopping::look(const Elapsed& elapsed, const Logs& logs) {
  const std::optional<double> value = monitor_.value(logs);
  if (!value) return Verdict::wait;
  const bool first = !waits_since_, best = monitor_.update(*value);
  const bool passes = best && (!baseline_ || monitor_.is_better(*value, *baseline_));
  if (first || passes) waits_since_ = elapsed;
  waited_ = passes ? 0 : waited_ + 1;
  if (best) return Verdict::best;
  if (first) return Verdict::wait;  // nothing to have got worse than
  const auto* evaluations = std::get_if<std::int64_t>(&patience_);
  const bool over =
      evaluations != nullptr ? waited_ >= *evaluations : elapsed - *waits_since_ >= std::get<Period>(patience_);
  return over ? Verdict::stop : Verdict::wait;
}

void EarlyStopping::copy_saved(const State& state, Saved& saved) {
  // A copy of this callback may share what was saved before.
  if (saved && saved.use_count() == 1) {
    saved->update(state);
  } else {
    saved = std::make_shared<Snapshot>(state);
  }
}

}  // namespace giro
