#include "kernels/cpu/expression_worker.h"

#include <algorithm>
#include <bit>

namespace giro::cpu {

using Pattern = Plan::Pattern;

Worker::Worker(const Plan& plan, std::byte* const* arrays, std::byte* memory, const Worker* leader)
    : plan_(plan),
      arrays_(arrays),
      memory_(memory),
      at_(reinterpret_cast<const std::byte**>(memory + plan.pointers_offset)),
      notes_(reinterpret_cast<Note*>(memory + plan.notes_offset)) {
  for (std::size_t v = 0; v < plan.slots.size(); ++v) {
    const Plan::Slot& s = plan.slots[v];
    at_[v] = s.constant != nullptr               ? s.constant
             : leader != nullptr && s.is_of_rows ? leader->at_[v]
                                                 : memory + s.offset;
  }
  for (int r = 0; r < plan.number_of_reads; ++r) notes_[r] = {0, -1};
  if (leader != nullptr) {
    rows_ = leader->rows_;
    first_row_ = leader->first_row_;
  }
}

void Worker::set_range(Range& at, std::int64_t first, std::int64_t n, int last) const {
  at.n = n;
  at.first = first;
  at.last = last;
  for (int a = last - 1; a > 0; --a) {
    at.index[a] = first % plan_.sizes[a];
    first /= plan_.sizes[a];
  }
  at.index[0] = first;
}

// The range of n elements from `element` of the first row on.
Worker::Range Worker::elements_from(std::int64_t element, std::int64_t n) const {
  Range at = rows_;
  at.first = first_row_ * plan_.length + element;
  at.n = n;
  at.last = plan_.rank;
  for (int a = plan_.rank - 1; a > plan_.kept; --a) {
    at.index[a] = element % plan_.sizes[a];
    element /= plan_.sizes[a];
  }
  at.index[plan_.kept] = element;
  return at;
}

std::int64_t Worker::offset_of(const Plan::Access& access, const Range& at) const {
  if (access.is_flat && plan_.pattern != Pattern::columns) return access.offset + at.first;
  std::int64_t offset = access.offset;
  for (int a = 0; a < plan_.rank; ++a) offset += at.index[a] * access.strides[a];
  return offset;
}

// Calls f(offset, done, n, now) for each part of the range within an innermost axis, which begins at index `now`.
template <class F>
void Worker::for_each_run(const Plan::Access& access, const Range& at, std::int64_t offset, const F& f) const {
  const int inner = at.last - 1;
  Range now = at;
  for (std::int64_t done = 0; done < at.n;) {
    const std::int64_t n = std::min(at.n - done, plan_.sizes[inner] - now.index[inner]);
    f(offset, done, n, now);
    done += n;
    offset -= now.index[inner] * access.strides[inner];
    now.index[inner] = 0;
    for (int a = inner - 1; a >= 0; --a) {
      offset += access.strides[a];
      if (++now.index[a] < plan_.sizes[a]) break;
      offset -= plan_.sizes[a] * access.strides[a];
      now.index[a] = 0;
    }
  }
}

// Whether all of a range within an innermost axis is in bounds.
bool Worker::in_bounds(const Plan::Access& read, const Range& at) const {
  for (int a = 0; a < plan_.rank; ++a) {
    const std::int64_t n = a == at.last - 1 ? at.n : 1;
    if (at.index[a] < read.bounds[a].begin || at.index[a] + n > read.bounds[a].end) return false;
  }
  return true;
}

// Elements out of bounds become 0.
void Worker::load_in_bounds(const Plan::Access& read, const Range& at, std::int64_t offset, std::byte* to) const {
  const auto size = static_cast<std::int64_t>(read.size);
  const int inner = at.last - 1;
  const std::int64_t stride = read.strides[inner];
  std::fill_n(to, at.n * size, std::byte{0});
  for_each_run(read, at, offset, [&](std::int64_t begin, std::int64_t done, std::int64_t n, Range now) {
    const std::int64_t first = std::max<std::int64_t>(0, read.bounds[inner].begin - now.index[inner]);
    now.index[inner] += first;
    now.n = std::min(n, read.bounds[inner].end - now.index[inner] + first) - first;
    if (now.n <= 0 || !in_bounds(read, now)) return;
    copy_strided(read.size, address(read, begin + first * stride), stride, to + (done + first) * size, 1, now.n);
  });
}

void Worker::load(const Plan::Access& read, const Range& at) {
  const std::int64_t offset = offset_of(read, at), stride = read.strides[at.last - 1];
  const bool within = is_within_axis(at);
  const bool is_cut = read.is_bounded && !(within && in_bounds(read, at));
  const bool is_place = read.array < 0;
  const bool is_whole = read.is_flat || (within && !is_cut && !is_place && (stride == 1 || read.is_number));
  const std::byte* const from = is_place ? nullptr : address(read, offset);
  if (is_whole && read.convert == nullptr) {
    at_[read.value] = from;
    return;
  }
  std::byte* const to = slot(read.value);
  at_[read.value] = to;
  Note& note = notes_[read.number];
  if (!is_cut && note.offset == offset && note.n >= at.n && (within || read.is_periodic)) return;
  if (is_whole) {
    read.convert(from, to, at.n);
  } else if (is_place) {
    for_each_run(read, at, offset, [&](std::int64_t place, std::int64_t done, std::int64_t n, const Range&) {
      std::int64_t* const out = reinterpret_cast<std::int64_t*>(to) + done;
      for (std::int64_t i = 0; i < n; ++i) out[i] = place + i * stride;
    });
  } else {
    std::byte* const raw = read.convert != nullptr ? memory_ + plan_.scratch_offset : to;
    const auto size = static_cast<std::int64_t>(read.size);
    const int outer = std::max(0, at.last - 2);
    const std::int64_t each = plan_.sizes[at.last - 1], times = at.n / each;
    if (is_cut) {
      load_in_bounds(read, at, offset, raw);
    } else if (stride == 0 && outer < at.last - 1 && at.index[at.last - 1] == 0 && at.n % each == 0 &&
               at.index[outer] + times <= plan_.sizes[outer]) {
      repeat(read.size, from, read.strides[outer], raw, times, each);
    } else {
      for_each_run(read, at, offset, [&](std::int64_t begin, std::int64_t done, std::int64_t n, const Range&) {
        copy_strided(read.size, address(read, begin), stride, raw + done * size, 1, n);
      });
    }
    if (read.convert != nullptr) read.convert(raw, to, at.n);
  }
  note = {offset, !is_cut && (within || read.is_periodic) ? at.n : -1};
}

void Worker::store(const Plan::Access& write, const Range& at) {
  const std::int64_t offset = offset_of(write, at), stride = write.strides[at.last - 1];
  const auto size = static_cast<std::int64_t>(write.size);
  const std::byte* from = at_[write.value];
  std::byte* const to = address(write, offset);
  if (from == to) return;
  const bool is_whole = write.is_flat || (stride == 1 && is_within_axis(at));
  if (write.convert != nullptr) {
    std::byte* const narrow = is_whole ? to : memory_ + plan_.scratch_offset;
    write.convert(from, narrow, at.n);
    if (is_whole) return;
    from = narrow;
  }
  if (is_whole) {
    copy_strided(write.size, from, 1, to, 1, at.n);
  } else {
    for_each_run(write, at, offset, [&](std::int64_t begin, std::int64_t done, std::int64_t n, const Range&) {
      copy_strided(write.size, from + done * size, 1, address(write, begin), stride, n);
    });
  }
}

void Worker::step(const Plan::Step& s, std::int64_t elements) {
  const std::int64_t n = s.is_number ? 1 : elements;
  auto* const out = const_cast<std::byte*>(at_[s.out]);
  switch (s.kind) {
    case Plan::Step::Kind::apply: {
      const void* const in[] = {at_[s.in[0]], at_[s.in[1]], at_[s.in[2]]};
      s.loop(in, out, n);
      break;
    }
    case Plan::Step::Kind::convert:
      s.convert(at_[s.in[0]], out, n);
      break;
    case Plan::Step::Kind::expand:
      if (plan_.pattern == Pattern::columns) {
        repeat(s.size, at_[s.in[0]], 1, out, 1, n);
      } else {
        repeat(s.size, at_[s.in[0]], 1, out, rows_.n, n / rows_.n);
      }
      break;
    case Plan::Step::Kind::chain:
      plan_.chain(s.links.data(), s.links.size(), at_, n);
      return;
  }
  if (s.round != nullptr) s.round(out, out, n);
}

void Worker::run_tile(const Plan::Pass& pass, const Range& at, std::int64_t element) {
  for (const Plan::Access& read : pass.reads) {
    if (!read.is_number) {
      load(read, at);
      continue;
    }
    Range one = at;
    one.n = 1;
    load(read, one);
  }
  for (const Plan::Access& write : pass.writes) {
    if (!write.is_direct) continue;
    const bool is_whole = write.is_flat || (write.strides[at.last - 1] == 1 && is_within_axis(at));
    at_[write.value] = is_whole ? address(write, offset_of(write, at)) : slot(write.value);
  }
  for (const Plan::Reduction& r : pass.reductions) {
    if (r.lanes >= 0) r.fold.open(slot(r.lanes), 1, kLanes);
  }
  for (const Plan::Step& s : pass.steps) step(s, at.n);
  for (const Plan::Reduction& r : pass.reductions) {
    if (r.lanes >= 0) {
      r.fold.close(slot(r.lanes), 1, kLanes, totals(1, r.number));
    } else if (plan_.pattern == Pattern::columns) {
      r.fold.add(at_[r.operand], lanes(r.number), at.n, element);
    } else {
      r.fold.rows(at_[r.operand], rows_.n, at.n / rows_.n, element, totals(1, r.number));
    }
  }
  for (const Plan::Access& write : pass.writes) store(write, at);
}

Total* Worker::totals(int half, int reduction) const {
  return reinterpret_cast<Total*>(memory_ + plan_.totals_offset) +
         (half * plan_.number_of_reductions + reduction) * plan_.unit_rows;
}

void Worker::begin(std::int64_t unit, std::int64_t units) {
  if (plan_.pattern == Pattern::rows) {
    first_row_ = unit * plan_.unit_rows;
    set_range(rows_, first_row_, std::min(plan_.unit_rows, plan_.rows - first_row_), plan_.kept);
  } else if (plan_.tiles_of_axis > 0) {
    const std::int64_t inner = plan_.sizes[plan_.kept - 1], begin = unit % plan_.tiles_of_axis * plan_.tile;
    first_row_ = unit / plan_.tiles_of_axis * inner + begin;
    set_range(rows_, first_row_, std::min(units * plan_.tile, inner - begin), plan_.kept);
  } else {
    first_row_ = unit * plan_.tile;
    set_range(rows_, first_row_, std::min(plan_.tile, plan_.rows - first_row_), plan_.kept);
  }
  for (const Plan::Access& read : plan_.row_reads) load(read, rows_);
  for (const Plan::Step& s : plan_.first_row_steps) step(s, rows_.n);
}

// Computes a total per block of kBlockLength, and adds the totals in order.
void Worker::run_part(const Plan::Pass& pass, std::int64_t first, std::int64_t last, Total* into) {
  for (std::int64_t block = first; block < last; block += kBlockLength) {
    const std::int64_t end = std::min(last, block + kBlockLength);
    for (const Plan::Reduction& r : pass.reductions) std::fill_n(totals(1, r.number), rows_.n, r.fold.identity);
    for (std::int64_t piece = block; piece < end; piece += kPiece) {
      const std::int64_t n = std::min(kPiece, end - piece);
      if (plan_.pattern == Pattern::rows) {
        for (const int v : plan_.kept_values) {
          const Plan::Slot& s = plan_.slots[static_cast<std::size_t>(v)];
          at_[v] = memory_ + s.offset + piece * static_cast<std::int64_t>(s.kept_size);
        }
        run_tile(pass, elements_from(piece, n * rows_.n), piece);
        continue;
      }
      const auto lanes_used = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(kLanes, n))));
      const auto used = [&](const Plan::Reduction& r) { return std::min(lanes_used, r.fold.lanes); };
      for (const Plan::Reduction& r : pass.reductions) r.fold.open(lanes(r.number), rows_.n, used(r));
      Range at = elements_from(piece, rows_.n);
      at.first = rows_.first;
      at.last = rows_.last;
      for (std::int64_t e = piece; e < piece + n; ++e) {
        run_tile(pass, at, e);
        for (int a = plan_.rank - 1; a >= plan_.kept && ++at.index[a] == plan_.sizes[a]; --a) at.index[a] = 0;
      }
      for (const Plan::Reduction& r : pass.reductions) {
        r.fold.close(lanes(r.number), rows_.n, used(r), totals(1, r.number));
      }
    }
    for (const Plan::Reduction& r : pass.reductions) {
      r.fold.merge(totals(1, r.number), into + r.index * plan_.unit_rows, rows_.n);
    }
  }
}

void Worker::finish_pass(const Plan::Pass& pass, const Total* from) {
  for (const Plan::Reduction& r : pass.reductions) {
    std::byte* const out = slot(r.out);
    r.fold.finish(from + r.index * plan_.unit_rows, r.convert != nullptr ? slot(r.between) : out, rows_.n);
    if (r.convert != nullptr) r.convert(slot(r.between), out, rows_.n);
    if (r.round != nullptr) r.round(out, out, rows_.n);
  }
  for (const Plan::Step& s : pass.row_steps) step(s, rows_.n);
}

void Worker::end() {
  for (const Plan::Access& write : plan_.row_writes) store(write, rows_);
}

void Worker::run(std::int64_t unit, std::int64_t units) {
  begin(unit, units);
  if (plan_.pattern == Pattern::elements) {
    run_tile(plan_.passes.front(), rows_, 0);
    return;
  }
  for (const Plan::Pass& pass : plan_.passes) {
    Total* const sums = totals(0, 0);
    for (const Plan::Reduction& r : pass.reductions) {
      std::fill_n(sums + r.index * plan_.unit_rows, rows_.n, r.fold.identity);
    }
    if (pass.has_elements()) run_part(pass, 0, plan_.length, sums);
    finish_pass(pass, sums);
  }
  end();
}

}  // namespace giro::cpu
