#include "runtime/files/kept_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace giro::detail {

bool is_better(const CheckpointRecord& a, const CheckpointRecord& b, const std::string& monitor,
               const std::string& mode) {
  const auto is_rated = [&](const CheckpointRecord& record) {
    return record.best && record.monitor == monitor && !std::isnan(*record.best);
  };
  if (!is_rated(a) || !is_rated(b)) return is_rated(a) && !is_rated(b);
  return mode == "max" ? *a.best > *b.best : *a.best < *b.best;
}

std::vector<std::size_t> superseded(const std::deque<StoredCheckpoints::Item>& items, std::int64_t steps,
                                    const CheckpointStoreOptions& options) {
  // Of each item what is compared, in one piece of memory: there may be many thousands.
  struct Compared {
    std::int64_t steps;
    bool is_rated;
    double loss;  // lower is better
  };
  std::vector<Compared> all;
  all.reserve(items.size());
  const CheckpointRecord unrated;
  for (const StoredCheckpoints::Item& item : items) {
    const CheckpointRecord& record = item.stored.record;
    const bool is_rated = !options.monitor.empty() && is_better(record, unrated, options.monitor, options.mode);
    const double loss = !is_rated ? 0 : options.mode == "max" ? -*record.best : *record.best;
    all.push_back({item.entry.steps, is_rated, loss});
  }
  const auto is_last_of_its_steps = [&](std::size_t i) {
    return i + 1 == all.size() || all[i + 1].steps != all[i].steps;
  };
  // The better one first, and of equal ones the newer.
  const auto stays_longer = [&](std::size_t a, std::size_t b) {
    return std::tuple(!all[a].is_rated, all[a].loss, b) < std::tuple(!all[b].is_rated, all[b].loss, a);
  };
  std::vector<bool> stays(all.size());
  const auto keep_as_of = [&](std::int64_t latest) {
    std::vector<std::size_t> order;  // newest first
    for (std::size_t i = all.size(); i-- > 0;) {
      if (all[i].steps <= latest && is_last_of_its_steps(i)) order.push_back(i);
    }
    const auto kept =
        static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(order.size(), static_cast<std::uint64_t>(options.keep)));
    if (!options.monitor.empty()) std::nth_element(order.begin(), order.begin() + kept, order.end(), stays_longer);
    for (std::ptrdiff_t i = 0; i < kept; ++i) stays[order[static_cast<std::size_t>(i)]] = true;
  };
  keep_as_of(steps);
  for (const std::int64_t resumable : options.resumable) keep_as_of(std::min(resumable, steps));

  const std::int64_t every = options.keep_every_n_steps;
  std::int64_t multiple = 0;  // passed by the latest checkpoint kept for good
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t at = all[i].steps;
    const bool is_latest = at == steps && is_last_of_its_steps(i);
    const bool is_permanent = at < steps && every > 0 && at / every > multiple;
    if (is_permanent) multiple = at / every;
    if (!is_latest && !is_permanent && !stays[i]) found.push_back(i);
  }
  return found;
}

}  // namespace giro::detail
