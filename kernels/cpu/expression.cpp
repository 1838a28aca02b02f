#include "kernels/expr/expression_op.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cpu/expression_plan.h"
#include "kernels/cpu/expression_worker.h"
#include "kernels/cpu/for_each.h"
#include "kernels/cpu/subnormals.h"
#include "kernels/cpu/team.h"

namespace giro::cpu {
namespace {

constexpr std::int64_t kMaxParts = 256;  // enough for threads to have equal shares

// How many of n equal pieces of the work a thread must get to be worth waking.
std::int64_t pieces_together(std::int64_t n, std::int64_t work, std::int64_t at_a_time) {
  const std::int64_t worth = kParallelFrom / std::max<std::int64_t>(1, work / std::max<std::int64_t>(1, n));
  return std::max({std::int64_t{1}, worth, at_a_time / kMaxParts});
}

constexpr std::int64_t kTogether = 16;  // tiles per run

void run_units(const Plan& plan, std::byte* const* arrays) {
  const std::int64_t most = plan.joins_tiles ? kTogether : 1;
  for_each_part(plan.units, pieces_together(plan.units, plan.work, plan.units), plan.work,
                [&](std::int64_t begin, std::int64_t end) {
                  Worker worker(plan, arrays, memory_of_thread(plan.memory));
                  for (std::int64_t unit = begin; unit < end; unit += most) {
                    worker.run(unit, std::min(most, end - unit));
                  }
                });
}

// Threads share the rows of each unit.
void run_split(const Plan& plan, std::byte* const* arrays) {
  const std::int64_t blocks = ceil_div(plan.length, kBlockLength);
  std::vector<std::byte> memory(plan.memory + 64);
  Worker leader(plan, arrays, memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64));
  for (std::int64_t unit = 0; unit < plan.units; ++unit) {
    leader.begin(unit);
    for (const Plan::Pass& pass : plan.passes) {
      const auto each = static_cast<std::size_t>(plan.unit_rows) * pass.reductions.size();
      std::vector<Total> totals, parts(each * static_cast<std::size_t>(blocks));
      for (const Plan::Reduction& r : pass.reductions) {
        totals.insert(totals.end(), static_cast<std::size_t>(plan.unit_rows), r.fold.identity);
      }
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::copy(totals.begin(), totals.end(), parts.begin() + b * static_cast<std::ptrdiff_t>(each));
      }
      if (pass.has_elements()) {
        for_each_part(blocks, pieces_together(blocks * plan.units, plan.work, blocks), plan.work,
                      [&](std::int64_t begin, std::int64_t end) {
                        Worker worker(plan, arrays, memory_of_thread(plan.memory), &leader);
                        for (std::int64_t b = begin; b < end; ++b) {
                          worker.run_part(pass, b * kBlockLength, std::min(plan.length, (b + 1) * kBlockLength),
                                          parts.data() + static_cast<std::size_t>(b) * each);
                        }
                      });
      }
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (const Plan::Reduction& r : pass.reductions) {
          const auto i = static_cast<std::size_t>(r.index * plan.unit_rows);
          r.fold.merge(parts.data() + static_cast<std::size_t>(b) * each + i, totals.data() + i,
                       leader.number_of_rows());
        }
      }
      leader.finish_pass(pass, totals.data());
    }
    leader.end();
  }
}

// One plan for all expressions of its structure.
std::shared_ptr<const Plan> plan_of(const expr::Expression& expression) {
  struct Hash {
    std::size_t operator()(const Plan::Key& key) const {
      const auto* const data = reinterpret_cast<const char*>(key.structure.data());
      return std::hash<std::string_view>()({data, key.structure.size() * sizeof(std::int64_t)});
    }
  };
  constexpr std::size_t kMost = 512;
  thread_local std::unordered_map<Plan::Key, std::shared_ptr<const Plan>, Hash> plans;
  Plan::Key key(expression);
  if (const auto found = plans.find(key); found != plans.end()) return found->second;
  auto plan = std::make_shared<const Plan>(expression, key);
  if (plans.size() == kMost) plans.clear();
  plans.emplace(std::move(key), plan);
  return plan;
}

}  // namespace

void run(const expr::Expression& expression, const Stream& stream) {
  std::vector<std::byte*> arrays;
  for (const expr::Access& read : expression.reads) arrays.push_back(begin_of(read));
  for (const expr::Expression::Write& write : expression.writes) arrays.push_back(begin_of(write.to));
  submit(stream, [plan = plan_of(expression), arrays = std::move(arrays)] {
    const FlushSubnormals flush;  // for the calling thread's own work
    if (plan->is_split) {
      run_split(*plan, arrays.data());
    } else {
      run_units(*plan, arrays.data());
    }
  });
}

}  // namespace giro::cpu
