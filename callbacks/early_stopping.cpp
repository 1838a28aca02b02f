#include <giro/callbacks/early_stopping.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/tensor.h>

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
  const bool reuse = saved && saved.use_count() == 1;
  if (!reuse) saved = std::make_shared<std::vector<Buffer>>();
  std::size_t i = 0;
  for (const auto& collection : state.collections()) {
    if (!collection->saved()) continue;
    const Tensor source = collection->bytes();
    if (!reuse) saved->push_back(Buffer::allocate(state.device(), source.bytes()));
    state.stream().copy((*saved)[i++].data(), source.raw(), source.bytes());
  }
}

void EarlyStopping::write_back(const State& state, const Saved& saved) {
  std::size_t i = 0;
  for (const auto& collection : state.collections()) {
    if (!collection->saved()) continue;
    const Tensor target = collection->bytes();
    state.stream().copy(target.raw(), (*saved)[i++].data(), target.bytes());
  }
}

}  // namespace giro
