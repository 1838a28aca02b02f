#include "loop/run/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace giro::detail {

Journal::Journal(History& history, Outputs& outputs, Current& running)
    : history_(history), outputs_(outputs), current_(running), unused_(1) {}

Journal::~Journal() {
  // Rows that will not be read must not block the next user of the rings.
  for (Record& record : in_flight_) record.drop();
  drop_step();
}

void Journal::keep(const std::shared_ptr<LogRing>& ring) {
  if (std::find(rings_.begin(), rings_.end(), ring) == rings_.end()) rings_.push_back(ring);
}

const Logs& Journal::read(const Row& row) {
  LogRing& ring = *row.ring;
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
  if (has_rows()) read_rows(now().rows, logs);
  if (!has_pending()) rings_.clear();
}

void Journal::end_step(const Elapsed& elapsed, Logs& logs) {
  Record& record = now();
  record.elapsed = elapsed;
  if (!logs.empty()) std::swap(record.logs, logs);
  record.is_committed = false;
  if (unused_.size() == 1) unused_.emplace_back();
  in_flight_.splice(in_flight_.end(), unused_, unused_.begin());
}

bool Journal::Record::is_ready() const {
  const auto is_written = [](const Row& row) { return row.ring->ready(row.number); };
  return std::ranges::all_of(rows, is_written) && (logs.empty() || logs.ready());
}

void Journal::Record::drop() {
  for (const Row& row : rows) row.ring->release(row.number);
  rows.clear();
  observers.clear();
}

const Logs& Journal::commit(Record& record, double date) {
  if (std::exchange(record.is_committed, true)) return record.logs;
  record.elapsed.date = date;
  const Logs* logs = &record.logs;
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
  return *logs;
}

void Journal::show(Record& record, double date) {
  const Current outer = std::exchange(current_, {nullptr, record.elapsed.steps});
  const Logs* logs = &record.logs;
  try {
    logs = &commit(record, date);
  } catch (...) {
    // Observers do not see logs that the history does not have.
    record.observers.clear();
    if (!failing_) throw;
  }
  for (CallbackModel*& next : record.observers) {
    CallbackModel* const observer = std::exchange(next, nullptr);  // a drain that continues here leaves it out
    if (observer == nullptr || observer->failed) continue;
    current_.callback = observer;
    const auto name = [&] { return observer->name(); };
    const Span span("callback", name, "step", record.elapsed.steps);
    try {
      observer->observe(record.elapsed, *logs);
    } catch (...) {
      observer->failed = true;
      if (failing_) continue;
      if (logs != &record.logs) record.logs = *logs;
      throw;
    }
  }
  current_ = outer;
  if (!record.logs.empty()) record.logs.clear();
  record.rows.clear();
  record.observers.clear();
  unused_.splice(std::next(unused_.begin()), in_flight_, in_flight_.begin());
}

}  // namespace giro::detail
