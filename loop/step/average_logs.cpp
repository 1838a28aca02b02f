#include "loop/step/average_logs.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/partitioner.h>

#include "kernels/elementwise.h"
#include "kernels/moments.h"

namespace giro::detail {

bool is_averaged(const std::string& collection) { return collection == "losses" || collection == "metrics"; }

void average_logs(Logs& logs, const Partitioner& partitioner, double weight, const Stream& stream) {
  // The positions of a metric with a count, and of its other data.
  struct Counted {
    std::size_t value, count;
    std::optional<std::size_t> mean, logarithm;
  };
  struct Plain {
    std::size_t entry;
    double factor;
  };
  std::vector<Plain> entries;
  std::vector<Counted> counted;
  const std::vector<LogSchema::Parts> parts = logs.schema().parts();
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    const nn::Var* const scalar = logs.values()[i].scalar();
    const auto& [collection, name] = logs.schema()[i];
    if (scalar == nullptr) continue;
    if (const auto& [count, mean, logarithm] = parts[i]; count && logs.values()[*count].scalar() != nullptr) {
      counted.push_back({i, *count, mean, logarithm});
      continue;
    }
    if (!is_averaged(collection)) continue;
    if (logs.schema().rule(i) == LogSchema::Rule::sum) {
      entries.push_back({i, weight > 0 ? partitioner.size() : 0.0});
      continue;
    }
    entries.push_back({i, weight});
  }
  if (entries.empty() && counted.empty()) return;
  std::vector<std::shared_ptr<const Buffer>> temporaries;
  const auto allocate = [&](std::size_t count) {
    temporaries.push_back(std::make_shared<const Buffer>(stream.allocate(count * sizeof(double))));
    return Tensor(temporaries.back(), DType::f64, {static_cast<std::int64_t>(count)});
  };
  const auto element = [](const Tensor& of, std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return of.rows(at, at + 1).reshape({});
  };
  const auto value = [&](std::size_t entry) { return logs.values()[entry].scalar()->value(); };

  const Tensor means = allocate(entries.size() + 3 * counted.size());
  const auto sums = [&](std::size_t i) {
    const auto begin = static_cast<std::int64_t>(entries.size() + 3 * i);
    return means.rows(begin, begin + 3);
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [entry, factor] = entries[i];
    ops::scale(element(means, i), value(entry), factor, stream);
  }
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const auto& [number, count, mean, logarithm] = counted[i];
    ops::moment_sums(sums(i), value(mean.value_or(logarithm.value_or(number))), mean ? value(number) : Tensor(),
                     value(count), stream);
    // A part without samples holds a row that does not count.
    if (weight == 0) ops::fill(sums(i), 0, stream);
  }
  partitioner.mean(means, stream);
  for (std::size_t i = 0; i < entries.size(); ++i) logs.values()[entries[i].entry] = nn::Var(element(means, i), stream);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const auto& [number, count, mean, logarithm] = counted[i];
    const Tensor of_all = allocate(3);
    ops::moments_of_sums(element(of_all, 0), mean ? element(of_all, 1) : Tensor(), element(of_all, 2), sums(i),
                         partitioner.size(), stream);
    logs.values()[number] = nn::Var(element(of_all, mean ? 1 : 0), stream);
    logs.values()[count] = nn::Var(element(of_all, 2), stream);
    if (mean) logs.values()[*mean] = nn::Var(element(of_all, 0), stream);
    if (logarithm) {
      const nn::Var of_losses(element(of_all, 0), stream);
      logs.values()[*logarithm] = of_losses;
      logs.values()[number] = exp(of_losses);
    }
  }
}

}  // namespace giro::detail
