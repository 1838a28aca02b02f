#include <giro/loop/journal.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::detail {

Journal::~Journal() {
  // Rows that nobody will read any more do not hold up who uses the rings next.
  drop_step();
  while (size_ > 0) {
    for (const Row& row : front().rows) row.ring->release(row.number);
    pop();
  }
}

void Journal::add(const std::shared_ptr<LogRing>& ring) { now_.rows.push_back({ring, ring->expect()}); }

void Journal::arrive(Logs& logs) {
  if (!now_.rows.empty()) read_rows(now_.rows, logs);
}

void Journal::read_rows(std::vector<Row>& rows, Logs& logs) {
  for (const Row& row : rows) {
    if (!row.ring->ready(row.number)) {
      throw Error(ErrorCode::device, fmt::format("row {} of a step's logs was never written: {} rows were", row.number,
                                                 row.ring->published()));
    }
    if (logs.empty()) {
      row.ring->read(row.number, logs);
    } else {
      row.ring->read(row.number, row_logs_);
      logs.merge(row_logs_);
    }
    row.ring->release(row.number);
  }
  rows.clear();
}

void Journal::end_step(const Elapsed& elapsed, Logs& logs) {
  if (size_ == records_.size()) {
    std::rotate(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(first_), records_.end());
    first_ = 0;
    records_.resize(std::max<std::size_t>(8, 2 * records_.size()));
  }
  Record& record = records_[(first_ + size_++) % records_.size()];
  record.elapsed = elapsed;
  std::swap(record.logs, logs);
  std::swap(record.rows, now_.rows);
  std::swap(record.observers, now_.observers);
  record.committed = false;
  record.next_observer = 0;
}

void Journal::drop_step() {
  for (const Row& row : now_.rows) row.ring->release(row.number);
  now_.rows.clear();
  now_.observers.clear();
}

bool Journal::Record::ready() const {
  for (const Row& row : rows) {
    if (!row.ring->ready(row.number)) return false;
  }
  return logs.ready();
}

void Journal::pop() {
  Record& record = front();
  record.logs.clear();
  record.rows.clear();
  record.observers.clear();
  first_ = (first_ + 1) % records_.size();
  --size_;
}

void Journal::commit(Record& record, double date) {
  if (std::exchange(record.committed, true)) return;
  record.elapsed.date = date;
  showing_step_ = record.elapsed.steps;
  try {
    read_rows(record.rows, record.logs);
    if (!record.logs.empty()) {
      history_.commit(record.elapsed, record.logs);
      outputs_.commit(record.elapsed, record.logs);
    }
  } catch (...) {
    // Nobody observes what the history does not have.
    record.observers.clear();
    if (!failing_) throw;
  }
  showing_step_ = kNoStep;
}

void Journal::show(Record& record) {
  while (record.next_observer < record.observers.size()) {
    Observer* const observer = record.observers[record.next_observer++];
    if (has_failed(observer)) continue;
    const Observer* const outer = std::exchange(showing_, observer);
    showing_step_ = record.elapsed.steps;
    try {
      observer->observe(record.elapsed, record.logs);
    } catch (...) {
      failed_.push_back(observer);
      if (!failing_) throw;
    }
    showing_ = outer;
    showing_step_ = kNoStep;
  }
}

bool Journal::has_failed(const Observer* observer) const {
  return std::find(failed_.begin(), failed_.end(), observer) != failed_.end();
}

}  // namespace giro::detail
