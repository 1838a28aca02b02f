#include "runtime/program/values.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>

#include "runtime/arena.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

// What names a value is no address, and no name of a trace (place.h), which do not have the highest bit.
constexpr int kOffsetBits = 40, kIdBits = 23;
constexpr std::uint64_t kIsValue = std::uint64_t{1} << 63;

std::uint64_t bits_of(const Tensor& tensor) { return std::bit_cast<std::uint64_t>(tensor.place()); }

// Finds out which value lies where, op by op.
class Numbering {
 public:
  Numbering(Values& values, const Arena& trace) : values_(values), trace_(trace) {}

  // An op may write over what it reads.
  void add(HeldOp& op) {
    op.call->for_each([&](Tensor& tensor, Use use) {
      if (tensor && use == Use::read) tensor = read(tensor);
    });
    written_.clear();
    op.call->for_each([&](Tensor& tensor, Use use) {
      if (tensor && use != Use::read) tensor = write(tensor, use);
    });
  }

 private:
  struct Interval {
    std::uintptr_t end;
    Id id;
    std::size_t offset;  // in the value
  };
  using Intervals = std::map<std::uintptr_t, Interval>;

  // The first interval that ends after an address.
  Intervals::iterator after(std::uintptr_t address) {
    auto at = there_.upper_bound(address);
    if (at != there_.begin() && std::prev(at)->second.end > address) --at;
    return at;
  }

  Id input(std::uintptr_t begin, std::uintptr_t end) {
    const Id id = values_.add({.place = std::bit_cast<char*>(begin), .bytes = end - begin, .is_input = true});
    there_[begin] = {end, id, 0};
    return id;
  }

  std::uintptr_t begin_of(const Tensor& tensor) const {
    return std::bit_cast<std::uintptr_t>(trace_.place_of(tensor.place()));
  }

  Tensor read(const Tensor& tensor) {
    const std::uintptr_t begin = begin_of(tensor), end = begin + tensor.bytes();
    if (begin == end) {
      const auto [at, is_new] = empty_.try_emplace(begin);
      if (is_new) at->second = values_.add({.place = std::bit_cast<char*>(begin), .bytes = 0, .is_input = true});
      return named(at->second, 0, tensor);
    }
    auto at = after(begin);
    if (at != there_.end() && at->first <= begin && at->second.end >= end) {
      return named(at->second.id, at->second.offset + (begin - at->first), tensor);
    }
    std::vector<Value::Part> parts;
    for (std::uintptr_t next = begin; next < end;) {
      if (at == there_.end() || at->first > next) {
        input(next, at == there_.end() ? end : std::min(end, at->first));
        at = after(next);
      }
      const auto& [from, interval] = *at++;
      const std::uintptr_t last = std::min(end, interval.end);
      parts.push_back({next - begin, last - next, interval.id, interval.offset + (next - from)});
      next = last;
    }
    if (parts.size() == 1) return named(parts.front().id, parts.front().offset_of_it, tensor);
    // Reads of the same values are reads of one value.
    Id& whole = joined_[{begin, end}];
    if (whole == 0 || values_[whole].parts != parts) {
      whole = values_.add({.place = std::bit_cast<char*>(begin), .bytes = end - begin, .parts = parts});
      for (const Value::Part& part : parts) values_[part.id].wholes.push_back(whole);
    }
    return named(whole, 0, tensor);
  }

  Tensor write(const Tensor& tensor, Use use) {
    const std::uintptr_t begin = begin_of(tensor), end = begin + tensor.bytes();
    // An op that writes several parts of an array names the whole array each time.
    for (const Tensor& other : written_) {
      const Value& value = values_.of(other);
      if (value.place == std::bit_cast<char*>(begin) && value.bytes == tensor.bytes())
        return named(id_of(other), 0, tensor);
    }
    const Tensor before = use == Use::updated ? read(tensor) : Tensor();
    const Id id = values_.add({.place = std::bit_cast<char*>(begin),
                               .bytes = end - begin,
                               .is_temporary = trace_.block_named(std::bit_cast<void*>(begin)) != nullptr,
                               .before = id_of(before),
                               .offset_of_before = offset_of(before)});
    if (begin == end) {
      empty_[begin] = id;
    } else {
      write_over(begin, end, id);
      there_[begin] = {end, id, 0};
    }
    written_.push_back(named(id, 0, tensor));
    return written_.back();
  }

  // Removes what lies in [begin, end).
  void write_over(std::uintptr_t begin, std::uintptr_t end, Id id) {
    for (auto at = after(begin); at != there_.end() && at->first < end;) {
      const auto [from, interval] = *at;
      values_.note_over(id, interval.id);
      at = there_.erase(at);
      if (from < begin) there_[from] = {begin, interval.id, interval.offset};
      if (interval.end > end) there_[end] = {interval.end, interval.id, interval.offset + (end - from)};
    }
  }

  Values& values_;
  const Arena& trace_;
  Intervals there_;                     // what lies in memory now
  std::map<std::uintptr_t, Id> empty_;  // values without elements, by address
  std::map<std::pair<std::uintptr_t, std::uintptr_t>, Id> joined_;
  std::vector<Tensor> written_;  // by the current op
};

}  // namespace

Tensor named(Id id, std::size_t offset, const Tensor& like) {
  if (id >> kIdBits != 0 || offset >> kOffsetBits != 0) {
    throw_error(ErrorCode::unsupported, "a program has value {} with an offset of {} bytes, expected up to {} and {}",
                id, offset, (std::uint64_t{1} << kIdBits) - 1, (std::uint64_t{1} << kOffsetBits) - 1);
  }
  const std::uint64_t name = kIsValue | std::uint64_t{id} << kOffsetBits | offset;
  return {std::bit_cast<void*>(name), like.dtype(), like.shape(), like.device()};
}

Id id_of(const Tensor& tensor) {
  const std::uint64_t bits = bits_of(tensor);
  return (bits & kIsValue) != 0 ? static_cast<Id>((bits & ~kIsValue) >> kOffsetBits) : 0;
}

std::size_t offset_of(const Tensor& tensor) { return bits_of(tensor) & ((std::uint64_t{1} << kOffsetBits) - 1); }

Id Values::add(Value value) {
  all_.push_back(std::move(value));
  return static_cast<Id>(all_.size() - 1);
}

Tensor Values::placed(const Tensor& tensor) const {
  if (id_of(tensor) == 0 || id_of(tensor) > count()) return tensor;
  return {of(tensor).place + offset_of(tensor), tensor.dtype(), tensor.shape(), tensor.device()};
}

void Values::for_each_use(const HeldOp& op, FunctionRef<void(const Tensor&, bool)> f) const {
  op.call->for_each([&](const Tensor& tensor, Use use) {
    if (!tensor) return;
    if (use == Use::read) f(tensor, true);
    const Value& value = of(tensor);
    if (use == Use::updated && value.before != 0) f(named(value.before, value.offset_of_before, tensor), true);
    if (use != Use::read) f(tensor, false);
  });
}

void Values::settle(const std::vector<HeldOp>& ops, Arena& trace) {
  for (const HeldOp& op : ops) {
    for_each_use(op, [&](const Tensor& tensor, bool) { of(tensor).place = trace.settle(of(tensor).place); });
  }
}

void Values::note_over(Id later, Id earlier) {
  all_[later].over.push_back(earlier);
  all_[earlier].under.push_back(later);
}

Values number(std::vector<HeldOp>& ops, const Arena& trace) {
  Values values(ops.size());
  Numbering numbering(values, trace);
  for (HeldOp& op : ops) numbering.add(op);
  return values;
}

}  // namespace giro::detail
