#include "kernels/cpu/expression_plan.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <giro/runtime/error.h>

#include "kernels/pointwise/scalar_function.h"

namespace giro::cpu {
namespace {

using pointwise::Combiner;
using pointwise::computed_in;
using pointwise::Expression;
using pointwise::Instruction;
using Kind = Instruction::Kind;
using Pattern = Plan::Pattern;

constexpr std::int64_t kLongestKept = 16384;  // elements of a row whose values are kept from pass to pass
constexpr std::int64_t kColumns = 256;
constexpr std::int64_t kFewUnits = 8;

[[noreturn]] void refuse(ErrorCode code, const std::string& what) { throw Error(code, "expression: " + what); }

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class Planner {
 public:
  Planner(const Expression& expression, Plan& plan) : e_(expression), p_(plan) {}

  void run() {
    find_needed();
    merge_axes();
    find_levels();
    choose_pattern();
    make_passes();
    for (Plan::Pass& pass : p_.passes) chain_steps(pass);
    place_slots();
  }

 private:
  struct Strides {
    std::int64_t offset;
    std::array<std::int64_t, kMaxAxes> of{};
  };
  // A value that needs a slot, from its step to its last use; `for_good` if nothing else may have that slot.
  struct Life {
    std::size_t size;
    bool of_rows;
    bool for_good;
    int first, last;
    int pass;
  };

  const Instruction& at(std::size_t i) const { return e_.code[i]; }
  int inputs_of(const Instruction& i) const {
    switch (i.kind) {
      case Kind::apply:
        return i.function->inputs;
      case Kind::cast:
      case Kind::reduce:
        return 1;
      default:
        return 0;
    }
  }
  std::size_t size_of_value(std::size_t i) const { return size_of(computed_in(at(i).dtype)); }

  void find_needed() {
    needed_.resize(e_.code.size());
    for (const auto& write : e_.writes) {
      if (write.value >= e_.code.size()) refuse(ErrorCode::invalid_argument, "a write of no value");
      if (write.to.memory.dtype() != at(write.value).dtype) {
        refuse(ErrorCode::dtype_mismatch,
               "a write of " + std::string(name_of(at(write.value).dtype)) + " to " + to_string(write.to.memory));
      }
      needed_[write.value] = true;
    }
    for (std::size_t i = e_.code.size(); i-- > 0;) {
      if (!needed_[i]) continue;
      for (int k = 0; k < inputs_of(at(i)); ++k) {
        const std::size_t operand = at(i).operands[static_cast<std::size_t>(k)];
        if (operand >= i) refuse(ErrorCode::invalid_argument, "an operand after its use");
        needed_[operand] = true;
      }
      if (at(i).kind == Kind::reduce) has_reductions_ = true;
      if (at(i).kind == Kind::read && e_.reads[at(i).index].memory.dtype() != at(i).dtype) {
        refuse(ErrorCode::dtype_mismatch,
               "a read of " + std::string(name_of(at(i).dtype)) + " from " + to_string(e_.reads[at(i).index].memory));
      }
    }
  }

  // Axes of one element go; two go together where they are one to all that is read and written.
  void merge_axes() {
    std::vector<const pointwise::Layout*> from(e_.reads.size() + e_.places.size() + e_.writes.size(), nullptr);
    for (std::size_t i = 0; i < e_.code.size(); ++i) {
      if (needed_[i] && at(i).kind == Kind::read) from[at(i).index] = &e_.reads[at(i).index].layout;
      if (needed_[i] && at(i).kind == Kind::place) from[e_.reads.size() + at(i).index] = &e_.places[at(i).index];
    }
    for (std::size_t w = 0; w < e_.writes.size(); ++w) {
      from[e_.reads.size() + e_.places.size() + w] = &e_.writes[w].to.layout;
    }
    std::vector<Strides> to(from.size());
    for (std::size_t l = 0; l < from.size(); ++l) to[l].offset = from[l] != nullptr ? from[l]->offset : 0;

    const std::size_t split = e_.space.rank() - e_.reduced;
    int rank = 0;
    const auto add_group = [&](std::size_t begin, std::size_t end) {
      const int first = rank;
      for (std::size_t a = begin; a < end; ++a) {
        const std::int64_t size = e_.space[static_cast<int>(a)];
        if (size == 1) continue;
        bool joins = rank > first;
        for (std::size_t l = 0; l < from.size() && joins; ++l) {
          joins = from[l] == nullptr || to[l].of[rank - 1] == from[l]->strides[a] * size;
        }
        if (!joins) p_.sizes[rank++] = 1;
        p_.sizes[rank - 1] *= size;
        for (std::size_t l = 0; l < from.size(); ++l) {
          if (from[l] != nullptr) to[l].of[rank - 1] = from[l]->strides[a];
        }
      }
      if (rank == first) p_.sizes[rank++] = 1;
    };
    add_group(0, split);
    p_.kept = rank;
    if (e_.reduced > 0 || has_reductions_) add_group(split, e_.space.rank());
    p_.rank = rank;
    const auto writes = to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size() + e_.places.size());
    reads_.assign(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size()));
    places_.assign(to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size()), writes);
    writes_.assign(writes, to.end());
  }

  bool is_of_rows(const Strides& strides) const {
    for (int a = p_.kept; a < p_.rank; ++a) {
      if (strides.of[a] != 0 && p_.sizes[a] != 1) return false;
    }
    return true;
  }

  // What a row has one value of, and after how many passes a value is known.
  void find_levels() {
    const std::size_t n = e_.code.size();
    of_rows_.assign(n, false);
    known_.assign(n, 0);
    const bool has_rows = p_.rank > p_.kept;
    for (std::size_t i = 0; i < n; ++i) {
      if (!needed_[i]) continue;
      bool of_rows = has_rows;
      for (int k = 0; k < inputs_of(at(i)); ++k) {
        const std::size_t operand = at(i).operands[static_cast<std::size_t>(k)];
        known_[i] = std::max(known_[i], known_[operand]);
        of_rows = of_rows && of_rows_[operand];
      }
      switch (at(i).kind) {
        case Kind::read:
          of_rows_[i] = has_rows && is_of_rows(reads_[at(i).index]);
          break;
        case Kind::place:
          of_rows_[i] = has_rows && is_of_rows(places_[at(i).index]);
          break;
        case Kind::reduce:
          of_rows_[i] = true;
          ++known_[i];
          break;
        default:
          of_rows_[i] = of_rows;
      }
    }
    writes_rows_.resize(e_.writes.size());
    bool any = false;
    for (std::size_t w = 0; w < e_.writes.size(); ++w) {
      writes_rows_[w] = of_rows_[e_.writes[w].value] && is_of_rows(writes_[w]);
      any = any || writes_rows_[w];
    }
    if (!has_reductions_ && !any) {  // no rows at all
      p_.kept = p_.rank;
      of_rows_.assign(n, false);
    }
  }

  void choose_pattern() {
    p_.rows = p_.length = 1;
    for (int a = 0; a < p_.rank; ++a) (a < p_.kept ? p_.rows : p_.length) *= p_.sizes[a];
    const std::int64_t inner = p_.sizes[p_.kept - 1];
    if (p_.kept == p_.rank) {
      cut(inner, kPiece);
    } else if (const int votes = votes_for_columns(); inner >= 16 && votes > 0) {
      p_.pattern = Pattern::columns;
      cut(inner, kColumns);
    } else {
      p_.pattern = Pattern::rows;
      p_.unit_rows = std::max<std::int64_t>(1, std::min(p_.rows, kPiece / std::max<std::int64_t>(1, p_.length)));
      p_.tile = std::min(p_.length, kPiece) * p_.unit_rows;
      p_.units = divided_up(p_.rows, p_.unit_rows);
    }
    if (p_.rows == 0) p_.units = 0;
    p_.is_split = p_.pattern != Pattern::elements && p_.units < kFewUnits && p_.length >= 2 * kBlockLength;
  }
  // Tiles along the innermost of the axes that are not reduced.
  void cut(std::int64_t inner, std::int64_t most) {
    const std::int64_t others = inner == 0 ? 0 : p_.rows / inner;
    if (inner >= most / 2) {
      p_.tiles_of_axis = divided_up(inner, most);
      p_.tile = std::min(inner, divided_up(divided_up(inner, p_.tiles_of_axis), 16) * 16);
      p_.tiles_of_axis = divided_up(inner, p_.tile);
      p_.units = others * p_.tiles_of_axis;
    } else {
      const std::int64_t together = std::min(others, most / std::max<std::int64_t>(1, inner));
      p_.tile = inner * together;
      p_.units = together == 0 ? 0 : divided_up(others, together);
    }
    p_.unit_rows = p_.tile;
  }
  int votes_for_columns() const {
    int votes = 0;
    const auto count = [&](const Strides& strides) {
      const auto is_one = [&](int a) { return strides.of[a] == 1 && p_.sizes[a] > 1; };
      votes += is_one(p_.kept - 1) - is_one(p_.rank - 1);
    };
    for (std::size_t i = 0; i < e_.code.size(); ++i) {
      if (needed_[i] && at(i).kind == Kind::read && !of_rows_[i]) count(reads_[at(i).index]);
    }
    for (std::size_t w = 0; w < e_.writes.size(); ++w) {
      if (!writes_rows_[w]) count(writes_[w]);
    }
    return votes;
  }

  // --- steps

  int new_value(std::size_t size, bool of_rows, bool for_good) {
    lives_.push_back({size, of_rows, for_good, now_, now_, pass_});
    p_.slots.emplace_back();
    return static_cast<int>(lives_.size()) - 1;
  }
  int used(int value) {
    Life& life = lives_[static_cast<std::size_t>(value)];
    life.last = now_;
    if (life.pass != pass_ && !life.of_rows && !life.for_good) {
      life.for_good = true;
      if (p_.length > kPiece) p_.slots[static_cast<std::size_t>(value)].kept_size = life.size;
    }
    return value;
  }

  Plan::Access access(const Strides& strides, const Tensor* memory, bool of_rows) const {
    Plan::Access a;
    a.offset = strides.offset;
    a.strides = strides.of;
    if (memory != nullptr) {
      a.memory = static_cast<std::byte*>(memory->raw());
      a.size = size_of(memory->dtype());
    }
    const int last = of_rows || p_.pattern == Pattern::columns ? p_.kept : p_.rank;
    a.is_flat = a.memory != nullptr;
    a.is_periodic = true;
    std::int64_t count = 1;
    for (int k = last - 1; k >= 0; --k) {
      a.is_flat = a.is_flat && (a.strides[k] == count || p_.sizes[k] == 1);
      a.is_periodic = a.is_periodic && (k == last - 1 || a.strides[k] == 0 || p_.sizes[k] == 1);
      count *= p_.sizes[k];
    }
    return a;
  }

  int load(std::size_t i, bool of_rows, std::vector<Plan::Access>& into) {
    const Instruction& code = at(i);
    const bool is_read = code.kind == Kind::read;
    Plan::Access a = access(is_read ? reads_[code.index] : places_[code.index],
                            is_read ? &e_.reads[code.index].memory : nullptr, of_rows);
    if (is_16_bit(code.dtype)) a.convert = conversion(code.dtype, DType::f32);
    ++now_;
    a.value = new_value(size_of_value(i), of_rows, true);
    a.number = p_.number_of_reads++;
    into.push_back(a);
    return a.value;
  }

  int constant(std::size_t i) {
    const DType dtype = computed_in(at(i).dtype);
    double number = at(i).number;
    if (!is_floating(at(i).dtype)) number = 0;
    alignas(8) std::byte value[8] = {};
    if (dtype == DType::f64) {
      std::memcpy(value, &number, 8);
    } else if (dtype == DType::f32) {
      float f = static_cast<float>(number);
      if (is_16_bit(at(i).dtype)) rounding(at(i).dtype)(&f, &f, 1);
      std::memcpy(value, &f, 4);
    } else {
      conversion(DType::i64, dtype)(&at(i).integer, value, 1);
    }
    const int result = new_value(0, true, true);
    constants_.push_back({result, size_of(dtype), {}});
    std::copy(value, value + 8, constants_.back().value.begin());
    return result;
  }

  Plan::Step step(std::size_t i, const std::array<int, 3>& in, int out) const {
    const Instruction& code = at(i);
    Plan::Step s;
    s.in = in;
    s.inputs = inputs_of(code);
    s.out = out;
    s.size = size_of_value(i);
    const DType from = computed_in(at(code.operands[static_cast<std::size_t>(s.inputs - 1)]).dtype);
    if (code.kind == Kind::cast) {
      s.kind = Plan::Step::Kind::convert;
      s.convert = conversion(from, computed_in(code.dtype));
      if (is_16_bit(code.dtype)) s.round = rounding(code.dtype);
    } else {
      s.loop = code.function->loops.get(from);
      if (s.loop == nullptr) {
        refuse(ErrorCode::dtype_mismatch, std::string(code.function->name) + " of " + std::string(name_of(from)));
      }
      if (is_16_bit(code.dtype) && !code.function->rules.is_exact) s.round = rounding(code.dtype);
      if (from == DType::f32 && s.round == nullptr) s.source = code.function->source;
    }
    return s;
  }

  // The value of each row. Its steps come before pass known_[i].
  int row_value(std::size_t i) {
    if (row_values_[i] >= 0) return used(row_values_[i]);
    int value = -1;
    switch (at(i).kind) {
      case Kind::constant:
        value = constant(i);
        break;
      case Kind::read:
      case Kind::place:
        value = load(i, true, p_.row_reads);
        break;
      case Kind::reduce:
        value = new_value(size_of_value(i), true, true);  // set by its pass
        break;
      default: {
        std::array<int, 3> in{};
        for (int k = 0; k < inputs_of(at(i)); ++k) {
          in[static_cast<std::size_t>(k)] = row_value(at(i).operands[static_cast<std::size_t>(k)]);
        }
        value = new_value(size_of_value(i), true, true);
        const auto before = static_cast<std::size_t>(known_[i]);
        (before == 0 ? p_.first_row_steps : p_.passes[before - 1].row_steps).push_back(step(i, in, value));
      }
    }
    return row_values_[i] = value;
  }

  // The value of each element, in the pass being made.
  int element_value(std::size_t i) {
    const bool is_constant = at(i).kind == Kind::constant;
    if (is_constant || (of_rows_[i] && p_.pattern == Pattern::columns)) return row_value(i);
    if (element_values_[i] >= 0) return used(element_values_[i]);
    Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
    int value = -1;
    if (at(i).kind == Kind::read || at(i).kind == Kind::place) {
      value = load(i, false, pass.reads);
    } else if (of_rows_[i]) {
      Plan::Step s;
      s.kind = Plan::Step::Kind::expand;
      s.in[0] = row_value(i);
      s.size = size_of_value(i);
      ++now_;
      s.out = value = new_value(s.size, false, false);
      pass.steps.push_back(s);
    } else {
      std::array<int, 3> in{};
      for (int k = 0; k < inputs_of(at(i)); ++k) {
        in[static_cast<std::size_t>(k)] = element_value(at(i).operands[static_cast<std::size_t>(k)]);
      }
      ++now_;
      for (int k = 0; k < inputs_of(at(i)); ++k) used(in[static_cast<std::size_t>(k)]);
      value = new_value(size_of_value(i), false, false);
      pass.steps.push_back(step(i, in, value));
    }
    return element_values_[i] = value;
  }

  int converted(int value, TileLoop loop, std::size_t size, std::vector<Plan::Step>& steps) {
    Plan::Step s;
    s.kind = Plan::Step::Kind::convert;
    s.convert = loop;
    s.in[0] = value;
    s.size = size;
    ++now_;
    used(value);
    s.out = new_value(size, false, false);
    steps.push_back(s);
    return s.out;
  }

  void add_reduction(std::size_t i) {
    Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
    const Instruction& code = at(i);
    const bool is_place = code.combiner == Combiner::argmax || code.combiner == Combiner::argmin;
    if (is_place && p_.length == 0) refuse(ErrorCode::invalid_argument, "argmax or argmin of nothing");
    Plan::Reduction r;
    DType dtype = computed_in(at(code.operands[0]).dtype);
    r.operand = element_value(code.operands[0]);
    if ((code.combiner == Combiner::any || code.combiner == Combiner::all) && dtype != DType::boolean) {
      r.operand = converted(r.operand, conversion(dtype, DType::boolean), 1, pass.steps);
      dtype = DType::boolean;
    }
    r.fold = fold_of(code.combiner, dtype);
    if (r.fold.takes != dtype) {
      r.operand = converted(r.operand, conversion(dtype, r.fold.takes), size_of(r.fold.takes), pass.steps);
    }
    r.number = p_.number_of_reductions++;
    r.out = row_value(i);
    if (const DType to = computed_in(code.dtype); to != r.fold.gives) {
      r.convert = conversion(r.fold.gives, to);
      r.between = new_value(size_of(r.fold.gives), true, true);
    }
    if (is_16_bit(code.dtype)) r.round = rounding(code.dtype);
    pass.reductions.push_back(r);
  }

  // A write into memory that is read waits for the last pass.
  int pass_of_write(std::size_t w) const {
    for (std::size_t i = 0; i < e_.code.size(); ++i) {
      if (needed_[i] && at(i).kind == Kind::read && shares_memory(w, at(i).index)) {
        return static_cast<int>(p_.passes.size()) - 1;
      }
    }
    return known_[e_.writes[w].value];
  }
  bool shares_memory(std::size_t w, std::size_t r) const {
    const Tensor &x = e_.writes[w].to.memory, &y = e_.reads[r].memory;
    const auto* const a = static_cast<const std::byte*>(x.raw());
    const auto* const b = static_cast<const std::byte*>(y.raw());
    return a < b + y.bytes() && b < a + x.bytes();
  }

  void make_passes() {
    int passes = 1;
    for (std::size_t i = 0; i < e_.code.size(); ++i) {
      if (needed_[i]) passes = std::max(passes, known_[i] + 1);
    }
    p_.passes.resize(static_cast<std::size_t>(passes));
    row_values_.assign(e_.code.size(), -1);
    element_values_.assign(e_.code.size(), -1);
    const bool keeps = p_.pattern == Pattern::rows && p_.length <= kLongestKept;
    const bool keeps_reads = keeps && p_.length <= kPiece;
    for (pass_ = 0; pass_ < passes; ++pass_) {
      for (std::size_t i = 0; i < e_.code.size(); ++i) {
        const bool is_read = at(i).kind == Kind::read || at(i).kind == Kind::place;
        if (is_read ? !keeps_reads : !keeps || of_rows_[i]) element_values_[i] = -1;
      }
      Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
      for (std::size_t i = 0; i < e_.code.size(); ++i) {
        if (needed_[i] && at(i).kind == Kind::reduce && known_[i] == pass_ + 1) add_reduction(i);
      }
      for (std::size_t w = 0; w < e_.writes.size(); ++w) {
        if (!writes_rows_[w] && pass_of_write(w) == pass_) pass.writes.push_back(write(w, false));
      }
      ++now_;  // reductions and writes come after all steps
      for (const Plan::Reduction& r : pass.reductions) used(r.operand);
      for (const Plan::Access& w : pass.writes) used(w.value);
      choose_direct(pass);
      p_.work += p_.rows * p_.length * static_cast<std::int64_t>(pass.steps.size() + pass.reductions.size() + 1);
    }
    for (Plan::Pass& pass : p_.passes) {
      for (Plan::Access& w : pass.writes) {
        w.is_direct = w.is_direct && p_.slots[static_cast<std::size_t>(w.value)].kept_size == 0;
      }
    }
    for (std::size_t w = 0; w < e_.writes.size(); ++w) {
      if (writes_rows_[w]) p_.row_writes.push_back(write(w, true));
    }
  }
  Plan::Access write(std::size_t w, bool of_rows) {
    Plan::Access a = access(writes_[w], &e_.writes[w].to.memory, of_rows);
    a.value = of_rows ? row_value(e_.writes[w].value) : element_value(e_.writes[w].value);
    a.number = static_cast<int>(w);
    if (is_16_bit(at(e_.writes[w].value).dtype)) a.convert = conversion(DType::f32, at(e_.writes[w].value).dtype);
    return a;
  }

  // A step computes into memory where nothing in that tile is read from there afterwards.
  void choose_direct(Plan::Pass& pass) {
    std::vector<int> direct;
    for (Plan::Access& w : pass.writes) {
      const Life& life = lives_[static_cast<std::size_t>(w.value)];
      const bool computed = std::any_of(pass.steps.begin(), pass.steps.end(), [&](const Plan::Step& s) {
        return s.out == w.value && s.kind != Plan::Step::Kind::expand;
      });
      bool safe = computed && w.convert == nullptr && std::find(direct.begin(), direct.end(), w.value) == direct.end();
      for (std::size_t i = 0; i < e_.code.size() && safe; ++i) {
        if (!needed_[i] || at(i).kind != Kind::read || element_values_[i] < 0) continue;
        safe = lives_[static_cast<std::size_t>(element_values_[i])].last <= life.first ||
               !shares_memory(static_cast<std::size_t>(w.number), at(i).index);
      }
      w.is_direct = safe;
      if (safe) direct.push_back(w.value);
    }
  }

  // --- chains

  int uses_of(int value) const {
    int uses = 0;
    for (const Plan::Pass& pass : p_.passes) {
      for (const Plan::Step& s : pass.steps) {
        for (int k = 0; k < s.inputs; ++k) uses += s.in[static_cast<std::size_t>(k)] == value;
        for (const auto& link : s.links) uses += link.value == value;
      }
      for (const Plan::Reduction& r : pass.reductions) uses += r.operand == value;
      for (const Plan::Access& w : pass.writes) uses += w.value == value;
    }
    return uses;
  }

  void chain_steps(Plan::Pass& pass) {
    p_.chain = chain();
    std::vector<Plan::Step> steps;
    for (const Plan::Step& s : pass.steps) {
      if (s.kind != Plan::Step::Kind::apply || s.source == nullptr || s.inputs != 2) {
        steps.push_back(s);
        continue;
      }
      Plan::Step* before = !steps.empty() && steps.back().kind == Plan::Step::Kind::chain ? &steps.back() : nullptr;
      if (before != nullptr && s.in[0] != before->out && s.in[1] != before->out) before = nullptr;
      if (before != nullptr && before->links.size() + 3 > kLongestChain) before = nullptr;
      // The value that goes on is in[x]; a new chain begins with one that is no scalar.
      const int x = before != nullptr ? s.in[0] != before->out : is_scalar(s.in[0], steps);
      const auto code = chain_code(s.source, x == 1);
      const int value = s.in[static_cast<std::size_t>(x)], other = s.in[static_cast<std::size_t>(1 - x)];
      if (!code || (before == nullptr && is_scalar(value, steps))) {
        steps.push_back(s);
        continue;
      }
      const bool is_square = value == other && *code == ChainStep::Code::multiply;
      if (before == nullptr) {
        steps.emplace_back();
        before = &steps.back();
        before->kind = Plan::Step::Kind::chain;
        before->inputs = 0;
        before->links.push_back({ChainStep::Code::load, false, value});
      } else if (uses_of(value) > 1 + is_square || (value == other && !is_square)) {
        before->links.push_back({ChainStep::Code::store, false, value});
      }
      if (is_square) {
        before->links.push_back({ChainStep::Code::square, false, value});
      } else {
        const bool scalar = is_scalar(other, steps);
        before->links.push_back({*code, scalar, scalar ? scalar_of(other, steps) : other});
      }
      before->out = s.out;
      before->size = s.size;
    }
    for (Plan::Step& s : steps) {
      if (s.kind == Plan::Step::Kind::chain) s.links.push_back({ChainStep::Code::store, false, s.out});
    }
    pass.steps = std::move(steps);
    std::erase_if(pass.steps,
                  [&](const Plan::Step& s) { return s.kind == Plan::Step::Kind::expand && uses_of(s.out) == 0; });
  }
  // One number for all of a tile: a constant, or a row's where a tile is of one row.
  bool is_scalar(int value, const std::vector<Plan::Step>& steps) const { return scalar_of(value, steps) >= 0; }
  int scalar_of(int value, const std::vector<Plan::Step>& steps) const {
    for (const Constant& c : constants_) {
      if (c.slot == value) return value;
    }
    if (p_.pattern != Pattern::rows || p_.unit_rows != 1) return -1;
    for (const Plan::Step& s : steps) {
      if (s.kind == Plan::Step::Kind::expand && s.out == value) return s.in[0];
    }
    return -1;
  }

  // --- memory

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
    for (std::size_t v = 0; v < lives_.size(); ++v) {  // in the order of their first uses
      const Life& life = lives_[v];
      const auto size = static_cast<std::int64_t>(life.size);
      Plan::Slot& slot = p_.slots[v];
      slot.is_of_rows = life.of_rows;
      if (life.of_rows || life.for_good) {
        slot.offset = reserve(size * (life.of_rows ? p_.unit_rows : slot.kept_size != 0 ? p_.length : p_.tile));
        continue;
      }
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
    if (p_.pattern == Pattern::columns) {
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

    const std::int64_t width = std::max(p_.tile, p_.unit_rows);
    p_.constants.resize(constants_.size() * static_cast<std::size_t>(width) * 8);
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      std::byte* const to = p_.constants.data() + c * static_cast<std::size_t>(width) * 8;
      copy_strided(constants_[c].size, constants_[c].value.data(), 0, to, 1, width);
      p_.slots[static_cast<std::size_t>(constants_[c].slot)].constant = to;
    }
  }

  struct Constant {
    int slot;
    std::size_t size;
    std::array<std::byte, 8> value;
  };

  const Expression& e_;
  Plan& p_;
  bool has_reductions_ = false;
  std::vector<bool> needed_, of_rows_, writes_rows_;
  std::vector<int> known_;  // the passes after which a value can be computed
  std::vector<Strides> reads_, places_, writes_;
  std::vector<int> row_values_, element_values_;  // slots, or -1
  std::vector<Life> lives_;
  std::vector<Constant> constants_;
  int now_ = 0, pass_ = 0;
};

}  // namespace

Plan::Plan(const Expression& expression) { Planner(expression, *this).run(); }

}  // namespace giro::cpu
