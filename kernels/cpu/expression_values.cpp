#include "kernels/cpu/expression_values.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "runtime/program/overlap.h"

namespace giro::cpu {
namespace {

constexpr std::int64_t kLarge = std::int64_t{16} << 20;  // bytes: more than caches keep until it is read

// When a value needs its slot: from step `first` to `last`, or always.
struct Lifetime : PlannedValues::Value {
  bool is_computed = false;   // by a step that is not an expansion
  int first = -1, last = -1;  // first is -1 if it is never stored
  int pass = 0;
};

class Values {
 public:
  Values(Plan& plan, const PlannedValues& values, const expr::Expression& expression)
      : p_(plan), expression_(expression) {
    for (const PlannedValues::Value& value : values.values) lifetimes_.push_back({value});
    p_.slots.resize(lifetimes_.size());
  }

  void find_lifetimes() {
    int now = 0;
    for (std::size_t k = 0; k < p_.passes.size(); ++k) {
      const Plan::Pass& pass = p_.passes[k];
      const int number = static_cast<int>(k);
      const auto made = [&](int value, bool is_computed) {
        Lifetime& lifetime = lifetime_of(value);
        lifetime.first = lifetime.last = now;
        lifetime.pass = number;
        lifetime.is_computed = is_computed;
      };
      const auto used = [&](int value) {
        Lifetime& lifetime = lifetime_of(value);
        lifetime.last = now;
        if (lifetime.pass == number || lifetime.of_rows || lifetime.is_permanent) return;
        lifetime.is_permanent = true;
        if (p_.length <= kPiece) return;
        p_.slots[static_cast<std::size_t>(value)].kept_size = lifetime.size;
        p_.kept_values.push_back(value);
      };
      for (const Plan::Step& s : pass.steps) {
        for (const ChainStep& link : s.links) {
          ++now;
          if (link.code == kChainStore.code) {
            made(link.operand, true);
          } else {
            used(link.operand);
            used(link.condition);
          }
        }
        if (s.kind == Plan::Step::Kind::chain) continue;
        ++now;
        for (const int value : s.operands()) used(value);
        made(s.out, s.kind != Plan::Step::Kind::expand);
      }
      ++now;
      for (const Plan::Reduction& r : pass.reductions) used(r.operand);
      for (const Plan::Access& w : pass.writes) used(w.value);
    }
  }

  // A step computes directly into the written memory if no later step of the tile reads from there.
  void choose_direct(Plan::Pass& pass, int number) {
    std::vector<int> direct;
    for (Plan::Access& w : pass.writes) {
      const Lifetime& lifetime = lifetime_of(w.value);
      w.is_direct = lifetime.is_computed && lifetime.pass == number && w.convert == nullptr &&
                    p_.slots[static_cast<std::size_t>(w.value)].kept_size == 0 &&
                    std::find(direct.begin(), direct.end(), w.value) == direct.end() &&
                    !is_read_later(w, lifetime.first);
      if (w.is_direct) direct.push_back(w.value);
    }
  }
  bool is_read_later(const Plan::Access& w, int time) const {
    const Tensor& written = expression_.writes[static_cast<std::size_t>(w.number)].to.memory;
    return std::ranges::any_of(lifetimes_, [&](const Lifetime& lifetime) {
      return lifetime.last > time && lifetime.read >= 0 &&
             detail::overlap(written, expression_.reads[static_cast<std::size_t>(lifetime.read)].memory);
    });
  }

  bool is_over_reads(const Plan::Access& w) const {
    return expr::is_written_over_reads(expression_, expression_.writes[static_cast<std::size_t>(w.number)].to);
  }

  // Results that do not fit into the caches bypass them, and inputs are prefetched.
  void stream_large(Plan::Pass& pass) {
    const auto is_large = [&](const Plan::Access& a) {
      return a.is_flat && a.convert == nullptr && p_.rows * p_.length * static_cast<std::int64_t>(a.size) >= kLarge;
    };
    for (const Plan::Access& write : pass.writes) {
      if (!write.is_direct || !is_large(write) || is_over_reads(write) || is_used(p_, write.value)) continue;
      for (Plan::Step& s : pass.steps) {
        for (ChainStep& link : s.links) {
          if (link.operand != write.value) continue;
          link = {kChainStream.code, link.operand, link.operand};
          p_.streams = true;
        }
      }
    }
    for (Plan::Step& s : pass.steps) {
      if (s.kind != Plan::Step::Kind::chain) continue;
      add_prefetch(s, pass, is_large);
      break;
    }
  }

  // Spreads the prefetches over the steps: more at once than a core has buffers for would stall the computation.
  template <class F>
  void add_prefetch(Plan::Step& chain, const Plan::Pass& pass, const F& is_large) {
    std::vector<ChainStep> ahead;
    for (int part = 0; part < kPrefetchParts; ++part) {
      for (const Plan::Access& read : pass.reads) {
        if (is_large(read)) ahead.push_back({kChainPrefetch.code + part, read.value, read.value});
      }
    }
    if (ahead.empty() || chain.links.size() < ahead.size()) return;
    std::vector<ChainStep> links;
    std::size_t fetched = 0;
    for (std::size_t k = 0; k < chain.links.size(); ++k) {
      for (; fetched * chain.links.size() <= k * ahead.size() && fetched < ahead.size(); ++fetched) {
        links.push_back(ahead[fetched]);
      }
      links.push_back(chain.links[k]);
    }
    chain.links = std::move(links);
  }

  // Whether no value of a tile is in a slot.
  bool joins_tiles() const {
    if (p_.pattern != Plan::Pattern::elements || p_.rank != 1) return false;
    std::vector<int> in_memory;
    const Plan::Pass& pass = p_.passes.front();
    for (const Plan::Access& read : pass.reads) {
      if (!read.is_flat || read.convert != nullptr) return false;
      in_memory.push_back(read.value);
    }
    for (const Plan::Access& write : pass.writes) {
      if (!write.is_flat || !write.is_direct) return false;
      in_memory.push_back(write.value);
    }
    const auto has_no_slot = [&](const ChainStep& link) {
      return std::find(in_memory.begin(), in_memory.end(), link.operand) != in_memory.end() ||
             p_.slots[static_cast<std::size_t>(link.operand)].constant != nullptr;
    };
    return std::all_of(pass.steps.begin(), pass.steps.end(), [&](const Plan::Step& s) {
      return s.kind == Plan::Step::Kind::chain && std::all_of(s.links.begin(), s.links.end(), has_no_slot);
    });
  }

  void place_slots() {
    std::int64_t end = 0;
    const auto reserve = [&](std::int64_t bytes) {
      const std::int64_t begin = end;
      end += ceil_div(bytes, 64) * 64;
      return begin;
    };
    struct Used {
      std::size_t size;
      std::int64_t offset;
      int last;
    };
    std::vector<Used> shared;
    std::vector<std::size_t> order(lifetimes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t v) { return lifetimes_[v].first; });
    for (const std::size_t v : order) {
      const Lifetime& lifetime = lifetimes_[v];
      const auto size = static_cast<std::int64_t>(lifetime.size);
      Plan::Slot& slot = p_.slots[v];
      slot.is_of_rows = lifetime.of_rows;
      if (lifetime.of_rows || lifetime.is_permanent) {
        slot.offset = reserve(size * (lifetime.of_rows ? p_.unit_rows : slot.kept_size != 0 ? p_.length : p_.tile));
        continue;
      }
      if (lifetime.first < 0) continue;
      const auto free = std::ranges::find_if(
          shared, [&](const Used& u) { return u.size == lifetime.size && u.last <= lifetime.first; });
      if (free != shared.end()) {
        free->last = lifetime.last;
        slot.offset = free->offset;
      } else {
        slot.offset = reserve(size * p_.tile);
        shared.push_back({lifetime.size, slot.offset, lifetime.last});
      }
    }
    p_.scratch_offset = reserve(8 * std::max(p_.tile, p_.unit_rows));
    p_.totals_offset = reserve(2 * p_.number_of_reductions * p_.unit_rows * static_cast<std::int64_t>(sizeof(Total)));
    if (p_.pattern == Plan::Pattern::columns) {
      std::int64_t most = 0;
      for (const Plan::Pass& pass : p_.passes) {
        for (const Plan::Reduction& r : pass.reductions) {
          most = std::max(most, r.fold.lanes * static_cast<std::int64_t>(r.fold.lane_bytes) * p_.tile);
        }
      }
      p_.lanes_bytes = ceil_div(most, 64) * 64;
      p_.lanes_offset = reserve(p_.lanes_bytes * p_.number_of_reductions);
    }
    p_.notes_offset = reserve(p_.number_of_reads * 16);
    p_.pointers_offset = reserve(static_cast<std::int64_t>(lifetimes_.size()) * 8);
    p_.memory = static_cast<std::size_t>(end);
  }

  // A chain takes a constant as one number, all others take a tile of it.
  void fill_constants(const std::vector<PlannedValues::Constant>& constants) {
    std::vector<bool> needs_tile(lifetimes_.size());
    const auto note = [&](int value) { needs_tile[static_cast<std::size_t>(value)] = true; };
    const auto note_steps = [&](const std::vector<Plan::Step>& steps) {
      for (const Plan::Step& s : steps) std::ranges::for_each(s.operands(), note);
    };
    note_steps(p_.first_row_steps);
    for (const Plan::Pass& pass : p_.passes) {
      note_steps(pass.steps);
      note_steps(pass.row_steps);
      for (const Plan::Reduction& r : pass.reductions) note(r.operand);
      for (const Plan::Access& w : pass.writes) note(w.value);
    }
    for (const Plan::Access& w : p_.row_writes) note(w.value);
    const auto width_of = [&](const PlannedValues::Constant& constant) {
      return needs_tile[static_cast<std::size_t>(constant.value)] ? std::max(p_.tile, p_.unit_rows) : 1;
    };
    std::int64_t width = 0;
    for (const PlannedValues::Constant& constant : constants) width += width_of(constant);
    p_.constants.resize(static_cast<std::size_t>(width) * 8);
    std::byte* to = p_.constants.data();
    for (const PlannedValues::Constant& constant : constants) {
      copy_strided(constant.size, constant.bytes.data(), 0, to, 1, width_of(constant));
      p_.slots[static_cast<std::size_t>(constant.value)].constant = to;
      to += width_of(constant) * 8;
    }
  }

 private:
  Lifetime& lifetime_of(int value) { return lifetimes_[static_cast<std::size_t>(value)]; }

  Plan& p_;
  const expr::Expression& expression_;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace

void place_values(Plan& plan, const PlannedValues& values, const expr::Expression& expression) {
  Values placed(plan, values, expression);
  placed.find_lifetimes();
  for (std::size_t k = 0; k < plan.passes.size(); ++k) placed.choose_direct(plan.passes[k], static_cast<int>(k));
  for (Plan::Pass& pass : plan.passes) placed.stream_large(pass);
  placed.place_slots();
  placed.fill_constants(values.constants);
  plan.joins_tiles = placed.joins_tiles();
}

}  // namespace giro::cpu
