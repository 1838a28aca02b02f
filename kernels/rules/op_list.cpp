#include "kernels/rules/op_list.h"

#include <algorithm>

#include "runtime/program/overlap.h"

namespace giro::rules {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

void insert(std::vector<std::size_t>& ops, std::size_t i) {
  const auto place = std::lower_bound(ops.begin(), ops.end(), i);
  if (place == ops.end() || *place != i) ops.insert(place, i);
}

void erase(std::vector<std::size_t>& ops, std::size_t i) {
  const auto place = std::lower_bound(ops.begin(), ops.end(), i);
  if (place != ops.end() && *place == i) ops.erase(place);
}

void insert(std::vector<Tensor>& tensors, const Tensor& tensor) {
  const auto is_same = [&](const Tensor& other) {
    return other.place() == tensor.place() && other.bytes() == tensor.bytes();
  };
  if (std::none_of(tensors.begin(), tensors.end(), is_same)) tensors.push_back(tensor);
}

bool is_one_in(const std::vector<std::size_t>& ops, std::size_t begin, std::size_t end) {
  const auto first = std::lower_bound(ops.begin(), ops.end(), begin);
  return first != ops.end() && *first < end;
}

}  // namespace

OpList::OpList(std::vector<detail::HeldOp>& ops, detail::Values& values)
    : ops_(ops), values_(values), uses_(ops.size()), readers_(values.count() + 1), writers_(values.count() + 1, kNone) {
  std::size_t segment = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool continues =
        i > 0 && ops[i].stream == ops[i - 1].stream && !ops[i].is_barrier() && !ops[i - 1].is_barrier();
    segment_.push_back(continues ? segment : ++segment);
    add(i);
  }
}

void OpList::add(std::size_t i) {
  Uses& uses = uses_[i] = {};
  values_.for_each_use(ops_[i],
                       [&](const Tensor& tensor, bool is_read) { insert(is_read ? uses.reads : uses.writes, tensor); });
  for (const Tensor& read : uses.reads) values_.for_each(read, [&](detail::Id id) { insert(readers_[id], i); });
  for (const Tensor& write : uses.writes) writers_[detail::id_of(write)] = i;
}

void OpList::remove(std::size_t i) {
  for (const Tensor& read : uses_[i].reads) values_.for_each(read, [&](detail::Id id) { erase(readers_[id], i); });
  for (const Tensor& write : uses_[i].writes) {
    if (writers_[detail::id_of(write)] == i) writers_[detail::id_of(write)] = kNone;
  }
  uses_[i] = {};
}

std::optional<std::size_t> OpList::writer(const Tensor& value) const {
  const std::size_t writer = writers_[detail::id_of(value)];
  return writer != kNone ? std::optional(writer) : std::nullopt;
}

std::optional<std::vector<std::size_t>> OpList::readers(std::size_t i, const Tensor& value, std::size_t most) const {
  const detail::Value& of = values_.of(value);
  const auto is_read = [&](detail::Id whole) { return !readers_[whole].empty(); };
  if (ops_[i].is_barrier() || !of.is_temporary || !of.over.empty() || !of.under.empty() ||
      std::ranges::any_of(of.wholes, is_read) || users(value).size() > most) {
    return std::nullopt;
  }
  for (const std::size_t k : users(value)) {
    if (ops_[k].stream != ops_[i].stream) return std::nullopt;
  }
  return users(value);
}

std::optional<std::size_t> OpList::only_reader(std::size_t i, const Tensor& value) const {
  const auto all = readers(i, value, 1);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

bool OpList::is_needed_below(const detail::Value& value, std::size_t begin, std::size_t end) const {
  return std::any_of(value.over.begin(), value.over.end(), [&](detail::Id earlier) {
    return is_one_in(readers_[earlier], begin, end) || (writers_[earlier] >= begin && writers_[earlier] < end);
  });
}

template <class F>
bool OpList::is_overwritten_by(const Tensor& tensor, const F& holds) const {
  bool is_overwritten = false;
  values_.for_each(tensor, [&](detail::Id id) {
    for (const detail::Id later : values_[id].under) {
      is_overwritten |= writers_[later] != kNone && holds(writers_[later]);
    }
  });
  return is_overwritten;
}

bool OpList::is_overwritten(const Tensor& tensor, std::size_t begin, std::size_t end) const {
  return is_overwritten_by(tensor, [&](std::size_t writer) { return writer >= begin && writer < end; });
}

bool OpList::can_run_early(std::size_t j, std::size_t i, const std::vector<std::size_t>& others) const {
  if (segment_[i] != segment_[j]) return false;
  const auto is_written_between = [&](const Tensor& read) {
    bool is_written = false;
    values_.for_each(read, [&](detail::Id id) {
      const std::size_t writer = writers_[id];
      is_written |= writer > i && writer < j && std::find(others.begin(), others.end(), writer) == others.end();
    });
    return is_written;
  };
  return std::none_of(reads(j).begin(), reads(j).end(), is_written_between) &&
         std::none_of(writes(j).begin(), writes(j).end(),
                      [&](const Tensor& write) { return is_needed_below(values_.of(write), i + 1, j); });
}

bool OpList::can_run_late(std::size_t i, std::size_t j) const {
  if (segment_[i] != segment_[j]) return false;
  return std::none_of(reads(i).begin(), reads(i).end(),
                      [&](const Tensor& read) { return is_overwritten(read, i + 1, j); }) &&
         std::none_of(writes(i).begin(), writes(i).end(), [&](const Tensor& write) {
           return is_one_in(users(write), i + 1, j) || is_overwritten(write, i + 1, j);
         });
}

bool OpList::is_unchanged(const Tensor& value, std::size_t i, std::size_t k) const {
  if (ops_[i].stream != ops_[k].stream) return false;
  return !is_overwritten_by(
      value, [&](std::size_t writer) { return writer > i && (writer < k || ops_[writer].stream != ops_[k].stream); });
}

bool OpList::replaces(const Tensor& later, const Tensor& earlier) const {
  return detail::overlap(placed(later), placed(earlier));
}

bool OpList::replaces_exactly(const Tensor& later, const Tensor& earlier) const {
  return placed(later).place() == placed(earlier).place() && later.bytes() == earlier.bytes();
}

bool OpList::replaces_reads(const Tensor& value, std::size_t i) const {
  return std::ranges::any_of(reads(i), [&](const Tensor& read) { return replaces(value, read); });
}

bool OpList::reads_as_part(std::size_t j, std::size_t i) const {
  return std::any_of(reads(j).begin(), reads(j).end(), [&](const Tensor& read) {
    bool is_part = false;
    values_.for_each(read, [&](detail::Id id) { is_part |= id != detail::id_of(read) && writers_[id] == i; });
    return is_part;
  });
}

bool OpList::is_all_of_one(const Tensor& value) const {
  const detail::Value& of = values_.of(value);
  return of.bytes == value.bytes() && of.parts.empty() && of.wholes.empty() && of.before == 0;
}

void OpList::put(const Tensor& value, const Tensor& other) {
  detail::Value& moved = values_.of(value);
  const detail::Value& there = values_.of(other);
  moved.place = static_cast<char*>(placed(other).place());
  moved.is_temporary = there.is_temporary;
  for (const detail::Id earlier : there.over) {
    const detail::Value& under = values_[earlier];
    if (moved.place < under.place + under.bytes && under.place < moved.place + moved.bytes) {
      values_.note_over(detail::id_of(value), earlier);
    }
  }
}

void OpList::read_instead(const Tensor& copy, const Tensor& value) {
  const detail::Id from = detail::id_of(copy), to = detail::id_of(value);
  const bool is_all = values_[from].bytes == copy.bytes();
  const auto names_it = [&](const Tensor& read) { return !is_all || detail::id_of(read) == from; };
  // A reader of a whole, such as the update of all parameters, may read thousands of parts: the others are not touched.
  std::vector<std::size_t> changed;
  for (const std::size_t k : users(copy)) {
    if (std::ranges::any_of(reads(k), names_it)) {
      changed.push_back(k);
    } else {
      insert(readers_[to], k);
    }
  }
  for (const std::size_t k : changed) remove(k);
  if (is_all) {
    readers_[from].clear();
    for (const std::size_t k : changed) {
      ops_[k].call->for_each([&](Tensor& tensor, detail::Use use) {
        if (use == detail::Use::read && detail::id_of(tensor) == from) {
          tensor = detail::named(to, detail::offset_of(tensor), tensor);
        } else if (use == detail::Use::updated && values_.of(tensor).before == from) {
          values_.of(tensor).before = to;
        }
      });
    }
    for (const detail::Id whole : values_[from].wholes) {
      for (detail::Value::Part& part : values_[whole].parts) part.id = part.id == from ? to : part.id;
      values_[to].wholes.push_back(whole);
    }
    values_[from].is_gone = true;
  } else {
    values_[from].parts.push_back({detail::offset_of(copy), copy.bytes(), to, 0});
    values_[to].wholes.push_back(from);
  }
  for (const std::size_t k : changed) add(k);
}

bool OpList::write_in_place_of(const Tensor& copy, const Tensor& value, std::size_t i, std::size_t k) {
  const auto value_readers = readers(i, value);
  const detail::Value& there = values_.of(copy);
  // Another stream may use the memory, and be waited for in between.
  if (!value_readers || !is_all_of_one(value) || copy.bytes() != value.bytes() || copy.device() != value.device() ||
      segment_[i] != segment_[k] || is_needed_below(there, i + 1, k)) {
    return false;
  }
  const auto may_write_over = [&](const Tensor& read) {
    return !replaces(copy, read) || (replaces_exactly(copy, read) && ops_[i].call->can_write_over(value, read));
  };
  const auto writes_below = [&](detail::Id earlier) { return writers_[earlier] == i; };
  if (!std::ranges::all_of(reads(i), may_write_over) || std::ranges::any_of(there.over, writes_below)) return false;
  for (const std::size_t reader : *value_readers) {
    if (reader > k && (is_overwritten(copy, k + 1, reader + 1) || !is_unchanged(copy, k, reader))) return false;
  }
  put(value, copy);
  for (const detail::Id later : there.under) values_.note_over(later, detail::id_of(value));
  read_instead(copy, value);
  return true;
}

bool OpList::write_under(const Tensor& later, const Tensor& value, std::size_t i, std::size_t k) {
  if (only_reader(i, value) != k || !is_all_of_one(value) || later.bytes() != value.bytes() ||
      later.device() != value.device() || segment_[i] != segment_[k] || is_needed_below(values_.of(later), i, k)) {
    return false;
  }
  put(value, later);
  values_.note_over(detail::id_of(later), detail::id_of(value));
  return true;
}

void OpList::tie(const Tensor& after, const Tensor& before) {
  detail::Value& value = values_.of(after);
  value.before = detail::id_of(before);
  value.offset_of_before = detail::offset_of(before);
}

void OpList::set(std::size_t i, std::string name, std::shared_ptr<detail::OpCall> call,
                 const std::vector<std::size_t>& gone) {
  remove(i);
  for (const std::size_t k : gone) drop(k);
  ops_[i].node.op = std::move(name);
  ops_[i].call = std::move(call);
  add(i);
}

void OpList::drop(std::size_t i) {
  remove(i);
  ops_[i].call = nullptr;
}

void OpList::compact() {
  std::erase_if(ops_, [](const detail::HeldOp& op) { return op.call == nullptr; });
}

}  // namespace giro::rules
