#include "kernels/cpu/expression_values.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kernels/cpu/expression_analysis.h"

namespace giro::cpu {
namespace {

constexpr std::int64_t kLarge = std::int64_t{16} << 20;  // bytes that caches do not keep until they are read

// From when to when a value needs a slot, in steps, or for good.
struct Life : PlannedValue {
  bool is_computed = false;   // by a step, and for itself
  int first = -1, last = -1;  // first is -1 if it is never stored
  int pass = 0;
};

class Values {
 public:
  Values(Plan& plan, const std::vector<PlannedValue>& values) : p_(plan) {
    for (const PlannedValue& value : values) lives_.push_back({value});
    p_.slots.resize(values.size());
  }

  void find_lives() {
    int now = 0;
    for (std::size_t k = 0; k < p_.passes.size(); ++k) {
      const Plan::Pass& pass = p_.passes[k];
      const int number = static_cast<int>(k);
      const auto made = [&](int value, bool is_computed) {
        Life& life = life_of(value);
        life.first = life.last = now;
        life.pass = number;
        life.is_computed = is_computed;
      };
      const auto used = [&](int value) {
        Life& life = life_of(value);
        life.last = now;
        if (life.pass == number || life.of_rows || life.for_good) return;
        life.for_good = true;
        if (p_.length <= kPiece) return;
        p_.slots[static_cast<std::size_t>(value)].kept_size = life.size;
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
        for (int i = 0; i < s.inputs; ++i) used(s.in[static_cast<std::size_t>(i)]);
        made(s.out, s.kind != Plan::Step::Kind::expand);
      }
      ++now;
      for (const Plan::Reduction& r : pass.reductions) used(r.operand);
      for (const Plan::Access& w : pass.writes) used(w.value);
    }
  }

  // A step computes into memory where nothing in that tile is read from there afterwards.
  template <class F>
  void choose_direct(Plan::Pass& pass, int number, const F& reads_from_there) {
    std::vector<int> direct;
    for (Plan::Access& w : pass.writes) {
      const Life& life = life_of(w.value);
      w.is_direct = life.is_computed && life.pass == number && w.convert == nullptr &&
                    p_.slots[static_cast<std::size_t>(w.value)].kept_size == 0 &&
                    std::find(direct.begin(), direct.end(), w.value) == direct.end() &&
                    !is_read_later(w, life.first, reads_from_there);
      if (w.is_direct) direct.push_back(w.value);
    }
  }
  template <class F>
  bool is_read_later(const Plan::Access& w, int time, const F& reads_from_there) const {
    for (std::size_t v = 0; v < lives_.size(); ++v) {
      if (lives_[v].last > time && reads_from_there(w, static_cast<int>(v))) return true;
    }
    return false;
  }

  // Results that do not fit into the caches go past them. The processor fetches one large input ahead of its use by
  // itself; among several it loses its way where much is computed in between.
  void stream_large(Plan::Pass& pass) {
    const auto is_large = [&](const Plan::Access& a) {
      return a.is_flat && a.convert == nullptr && p_.rows * p_.length * static_cast<std::int64_t>(a.size) >= kLarge;
    };
    const auto is_input = [&](const Plan::Access& write) {
      return std::any_of(pass.reads.begin(), pass.reads.end(),
                         [&](const Plan::Access& read) { return read.memory == write.memory; });
    };
    const auto is_used = [&](int value) {
      const auto by_link = [&](const ChainStep& l) {
        return l.code != kChainStore.code && (l.operand == value || l.condition == value);
      };
      const auto by_step = [&](const Plan::Step& s) {
        return std::find(s.in.begin(), s.in.begin() + s.inputs, value) != s.in.begin() + s.inputs ||
               std::any_of(s.links.begin(), s.links.end(), by_link);
      };
      return std::any_of(pass.steps.begin(), pass.steps.end(), by_step) ||
             std::any_of(pass.reductions.begin(), pass.reductions.end(),
                         [&](const Plan::Reduction& r) { return r.operand == value; });
    };
    for (const Plan::Access& write : pass.writes) {
      if (!write.is_direct || !is_large(write) || is_input(write) || is_used(write.value)) continue;
      for (Plan::Step& s : pass.steps) {
        for (ChainStep& link : s.links) {
          if (link.operand != write.value) continue;
          link = {kChainStream.code, link.operand, link.operand};
          p_.streams = true;
        }
      }
    }
    const auto chain = std::find_if(pass.steps.begin(), pass.steps.end(),
                                    [](const Plan::Step& s) { return s.kind == Plan::Step::Kind::chain; });
    const auto large = std::count_if(pass.reads.begin(), pass.reads.end(), is_large);
    if (large < 2 || chain == pass.steps.end() || std::ssize(chain->links) <= 4 * large) return;
    for (const Plan::Access& read : pass.reads) {
      if (is_large(read)) chain->links.insert(chain->links.begin(), {kChainAhead.code, read.value, read.value});
    }
  }

  void place_slots() {
    std::int64_t end = 0;
    const auto reserve = [&](std::int64_t bytes) {
      const std::int64_t begin = end;
      end += divided_up(bytes, 64) * 64;
      return begin;
    };
    struct Used {
      std::size_t size;
      std::int64_t offset;
      int last;
    };
    std::vector<Used> shared;
    std::vector<std::size_t> order(lives_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return lives_[a].first < lives_[b].first; });
    for (const std::size_t v : order) {
      const Life& life = lives_[v];
      const auto size = static_cast<std::int64_t>(life.size);
      Plan::Slot& slot = p_.slots[v];
      slot.is_of_rows = life.of_rows;
      if (life.of_rows || life.for_good) {
        slot.offset = reserve(size * (life.of_rows ? p_.unit_rows : slot.kept_size != 0 ? p_.length : p_.tile));
        continue;
      }
      if (life.first < 0) continue;
      const auto free = std::find_if(shared.begin(), shared.end(),
                                     [&](const Used& u) { return u.size == life.size && u.last <= life.first; });
      if (free != shared.end()) {
        free->last = life.last;
        slot.offset = free->offset;
      } else {
        slot.offset = reserve(size * p_.tile);
        shared.push_back({life.size, slot.offset, life.last});
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
      p_.lanes_bytes = divided_up(most, 64) * 64;
      p_.lanes_offset = reserve(p_.lanes_bytes * p_.number_of_reductions);
    }
    p_.notes_offset = reserve(p_.number_of_reads * 16);
    p_.pointers_offset = reserve(static_cast<std::int64_t>(lives_.size()) * 8);
    p_.memory = static_cast<std::size_t>(end);
  }

  void fill_constants(const std::vector<PlannedConstant>& constants) {
    const std::int64_t width = std::max(p_.tile, p_.unit_rows);
    p_.constants.resize(constants.size() * static_cast<std::size_t>(width) * 8);
    for (std::size_t c = 0; c < constants.size(); ++c) {
      std::byte* const to = p_.constants.data() + c * static_cast<std::size_t>(width) * 8;
      copy_strided(constants[c].size, constants[c].bytes.data(), 0, to, 1, width);
      p_.slots[static_cast<std::size_t>(constants[c].value)].constant = to;
    }
  }

 private:
  Life& life_of(int value) { return lives_[static_cast<std::size_t>(value)]; }

  Plan& p_;
  std::vector<Life> lives_;
};

}  // namespace

void place_values(Plan& plan, const std::vector<PlannedValue>& values, const std::vector<PlannedConstant>& constants,
                  const std::function<bool(const Plan::Access& write, int value)>& reads_from_there) {
  Values placed(plan, values);
  placed.find_lives();
  for (std::size_t k = 0; k < plan.passes.size(); ++k) {
    placed.choose_direct(plan.passes[k], static_cast<int>(k), reads_from_there);
  }
  for (Plan::Pass& pass : plan.passes) placed.stream_large(pass);
  placed.place_slots();
  placed.fill_constants(constants);
}

}  // namespace giro::cpu
