#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include <giro/loop/any_callback.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/log_ring.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/span.h>

namespace giro::detail {

// The part of a run that is running, or has thrown: a callback, or without one the logs of a step.
struct Current {
  static constexpr std::int64_t kNoStep = -1;

  CallbackModel* callback = nullptr;
  std::int64_t step = kNoStep;
};

// Passes the logs of a run from its steps to the history. A step's logs are the logs of its host callbacks and the rows
// that its device steps will write. When all have arrived, they are committed and shown to the step's observers, in
// step order. Makes no allocation per step once the number of steps in flight has reached its maximum.
class Journal : NotCopied {
 public:
  // All must outlive it. It keeps `running` up to date while it commits and shows logs.
  Journal(History& history, Outputs& outputs, Current& running);
  ~Journal();

  // Add the next row of a ring to the current step's logs, or an observer to the current step.
  void add(const std::shared_ptr<LogRing>& ring) {
    if (rings_.empty() || rings_.back() != ring) keep(ring);
    now().rows.push_back({ring.get(), ring->expect()});
  }
  void add(CallbackModel* observer) { now().observers.push_back(observer); }
  // Calls f with the names of the current step's logs so far: those of its host logs, and of each row to come.
  template <class F>
  void for_each_schema(const Logs& host, F&& f) const {
    if (!host.empty()) f(host.schema());
    for (const Row& row : now().rows) f(row.ring->schema());
  }
  bool has_rows() const noexcept { return !now().rows.empty(); }
  bool is_empty() const noexcept { return now().rows.empty() && now().observers.empty(); }
  // Moves the logs of the current step's device steps to `logs`. The device must have finished them.
  void arrive(Logs& logs);
  // Ends the step. `logs` are its host logs; they are empty afterwards.
  void end_step(const Elapsed& elapsed, Logs& logs);
  // Drops the current step after a failure.
  void drop_step() { now().drop(); }

  bool has_pending() const noexcept { return !in_flight_.empty(); }
  // Commits and shows the steps with complete logs, or all steps if the device has finished them. now() gives the date
  // of the committed steps. Errors: those of the history and of observers, after which the next drain continues;
  // device.
  template <class F>
  void drain(bool all, F&& now) {
    if (!has_pending() || !(all || in_flight_.front().is_ready())) return;
    const Span span("logs", "drain");
    const double date = now();
    do {
      show(in_flight_.front(), date);
    } while (has_pending() && (all || in_flight_.front().is_ready()));
  }
  // Ignores errors from now on: they usually come from the same device or disk and add nothing. An error then affects
  // only its own step or observer.
  void set_failing() noexcept { failing_ = true; }

 private:
  struct Row {
    LogRing* ring;  // one of rings_
    std::int64_t number;
  };
  // A step with logs in flight.
  struct Record {
    Elapsed elapsed;
    Logs logs;
    std::vector<Row> rows;
    std::vector<CallbackModel*> observers;
    bool is_committed = false;

    bool is_ready() const;
    void drop();
  };

  // The current step, without its host logs.
  Record& now() noexcept { return unused_.front(); }
  const Record& now() const noexcept { return unused_.front(); }
  void keep(const std::shared_ptr<LogRing>& ring);
  const Logs& read(const Row& row);
  void read_rows(std::vector<Row>& rows, Logs& logs);
  // Returns the committed logs. They are in the record or, usually, in row_logs_, which all records share.
  const Logs& commit(Record& record, double date);
  // Commits a record and shows it to its observers, and then takes it out of the list.
  void show(Record& record, double date);

  History& history_;
  Outputs& outputs_;
  Current& current_;
  // The rings of the rows in flight. Other rings stay until arrive() finds no steps in flight.
  std::vector<std::shared_ptr<LogRing>> rings_;
  std::list<Record> in_flight_, unused_;  // their memory is reused; the first of unused_ is the current step
  Logs row_logs_;                         // of the row that was read last
  std::shared_ptr<LogRing> row_logs_of_;  // the ring of that row
  bool failing_ = false;
};

}  // namespace giro::detail
