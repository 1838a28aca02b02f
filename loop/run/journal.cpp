#include "loop/run/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::detail {

Journal::Journal(History history, Outputs outputs)
    : history_(std::move(history)), outputs_(std::move(outputs)), records_(2), now_(records_.data()) {}

Journal::~Journal() {
  // Rows that will not be read must not block the next user of the rings.
  drop_step();
  while (size_ > 0) {
    for (const Row& row : front().rows) row.ring->release(row.number);
    pop();
  }
}

void Journal::keep(const std::shared_ptr<LogRing>& ring) {
  if (std::find(rings_.begin(), rings_.end(), ring) == rings_.end()) rings_.push_back(ring);
}

void Journal::add(Observer* observer) { now_->observers.push_back(observer); }

const Logs& Journal::read(const Row& row) {
  LogRing& ring = *row.ring;
  if (!ring.ready(row.number)) {
    throw Error(ErrorCode::device,
                fmt::format("row {} of a step's logs was never written: {} rows were", row.number, ring.published()));
  }
  const bool is_same = row_logs_of_.get() == &ring;
  ring.read(row.number, row_logs_, is_same);
  if (!is_same) row_logs_of_ = ring.shared_from_this();
  ring.release(row.number);
  return row_logs_;
}

void Journal::read_rows(std::vector<Row>& rows, Logs& logs) {
  for (const Row& row : rows) logs.merge(read(row));
  rows.clear();
}

void Journal::arrive(Logs& logs) {
  if (has_rows()) read_rows(now_->rows, logs);
  if (size_ == 0) rings_.clear();
}

void Journal::end_step(const Elapsed& elapsed, Logs& logs) {
  if (size_ + 1 == records_.size()) grow();
  now_->elapsed = elapsed;
  if (!logs.empty()) std::swap(now_->logs, logs);
  now_->committed = false;
  now_->next_observer = 0;
  ++size_;
  now_ = &records_[(first_ + size_) & (records_.size() - 1)];
}

void Journal::grow() {
  std::rotate(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(first_), records_.end());
  first_ = 0;
  now_ = &records_[size_];
  records_.resize(2 * records_.size());
  now_ = &records_[size_];
}

void Journal::drop_step() {
  for (const Row& row : now_->rows) row.ring->release(row.number);
  now_->rows.clear();
  now_->observers.clear();
}

bool Journal::Record::ready() const {
  for (const Row& row : rows) {
    if (!row.ring->ready(row.number)) return false;
  }
  return logs.empty() || logs.ready();
}

void Journal::pop() {
  Record& record = front();
  if (!record.logs.empty()) record.logs.clear();
  record.rows.clear();
  record.observers.clear();
  first_ = (first_ + 1) & (records_.size() - 1);
  --size_;
}

const Logs& Journal::commit(Record& record, double date) {
  if (std::exchange(record.committed, true)) return record.logs;
  record.elapsed.date = date;
  showing_step_ = record.elapsed.steps;
  const Logs* logs = &record.logs;
  try {
    bool has_outputs = true;
    if (record.logs.empty() && record.rows.size() == 1) {
      has_outputs = record.rows.front().ring->has_outputs();
      logs = &read(record.rows.front());
    } else {
      read_rows(record.rows, record.logs);
    }
    if (!logs->empty()) {
      history_.commit(record.elapsed, *logs);
      if (has_outputs) outputs_.commit(record.elapsed, *logs);
    }
  } catch (...) {
    // Observers do not see logs that the history does not have.
    record.observers.clear();
    if (!failing_) throw;
  }
  showing_step_ = kNoStep;
  return *logs;
}

void Journal::show(Record& record, const Logs& logs) {
  while (record.next_observer < record.observers.size()) {
    Observer* const observer = record.observers[record.next_observer++];
    if (has_failed(observer)) continue;
    const Observer* const outer = std::exchange(showing_, observer);
    showing_step_ = record.elapsed.steps;
    try {
      const Span span(
          "callback", [&] { return observer->name(); }, "step", record.elapsed.steps);
      observer->observe(record.elapsed, logs);
    } catch (...) {
      failed_.push_back(observer);
      if (!failing_) {
        if (&logs != &record.logs) record.logs = logs;  // for the drain that continues here
        throw;
      }
    }
    showing_ = outer;
    showing_step_ = kNoStep;
  }
}

void Journal::fail(const Observer* observer) { failed_.push_back(observer); }

bool Journal::has_failed(const Observer* observer) const {
  return std::find(failed_.begin(), failed_.end(), observer) != failed_.end();
}

}  // namespace giro::detail
