#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/any_callback.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/log_ring.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/span.h>

namespace giro::detail {

// Passes the logs of a run from its steps to the history. A step's logs are the logs of its host callbacks and the rows
// that its device steps will write. When all have arrived, they are committed and shown to the step's observers, in
// step order. Makes no allocation per step once the number of steps in flight has reached its maximum.
class Journal {
 public:
  Journal(History history, Outputs outputs);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Add the next row of a ring to the current step's logs, or an observer to the current step.
  void add(const std::shared_ptr<LogRing>& ring) {
    if (rings_.empty() || rings_.back() != ring) keep(ring);
    now_->rows.push_back({ring.get(), ring->expect()});
  }
  void add(Observer* observer);
  bool has_rows() const noexcept { return !now_->rows.empty(); }
  bool is_empty() const noexcept { return now_->rows.empty() && now_->observers.empty(); }
  // Moves the logs of the current step's device steps to `logs`. The device must have finished them.
  void arrive(Logs& logs);
  // Ends the step. `logs` are its host logs; they are empty afterwards.
  void end_step(const Elapsed& elapsed, Logs& logs);
  // Drops the current step after a failure.
  void drop_step();

  bool has_pending() const noexcept { return size_ > 0; }
  // Commits and shows the steps with complete logs, or all steps if the device has finished them. now() gives the date
  // of the committed steps. Errors: those of the history and of observers, after which the next drain continues;
  // device.
  template <class F>
  void drain(bool all, F&& now) {
    if (size_ == 0 || !(all || front().ready())) return;
    const Span span("logs", "drain");
    const double date = now();
    do {
      const Logs& logs = commit(front(), date);
      if (!front().observers.empty()) show(front(), logs);
      pop();
    } while (size_ > 0 && (all || front().ready()));
  }
  // Ignores errors from now on: they usually come from the same device or disk and add nothing. An error then affects
  // only its own step or observer.
  void set_failing() noexcept { failing_ = true; }

  // The observer that is observing a step, or threw while doing so, and that step; null if none.
  const Observer* showing() const noexcept { return showing_; }
  std::int64_t showing_step() const noexcept { return showing_step_; }
  void forget_showing() noexcept { showing_ = nullptr; }
  // An observer that has failed is shown nothing more.
  void fail(const Observer* observer);
  bool has_failed(const Observer* observer) const;

  const History& history() const noexcept { return history_; }
  History& history() noexcept { return history_; }
  const Outputs& outputs() const noexcept { return outputs_; }
  Outputs& outputs() noexcept { return outputs_; }

  static constexpr std::int64_t kNoStep = -1;

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
    std::vector<Observer*> observers;
    bool committed = false;
    std::size_t next_observer = 0;

    bool ready() const;
  };

  void keep(const std::shared_ptr<LogRing>& ring);
  Record& front() { return records_[first_]; }
  void pop();
  void grow();
  const Logs& read(const Row& row);
  void read_rows(std::vector<Row>& rows, Logs& logs);
  // Returns the committed logs. They are in the record or, usually, in row_logs_, which all records share.
  const Logs& commit(Record& record, double date);
  void show(Record& record, const Logs& logs);

  History history_;
  Outputs outputs_;
  // The rings of the rows in flight. Other rings stay until arrive() finds no steps in flight.
  std::vector<std::shared_ptr<LogRing>> rings_;
  std::vector<Record> records_;  // a circular buffer of 2^n records; their memory is reused
  std::size_t first_ = 0, size_ = 0;
  Record* now_;                           // the current step, without its host logs: the record after those in flight
  Logs row_logs_;                         // of the row that was read last
  std::shared_ptr<LogRing> row_logs_of_;  // the ring of that row
  bool failing_ = false;
  const Observer* showing_ = nullptr;
  std::int64_t showing_step_ = kNoStep;
  std::vector<const Observer*> failed_;
};

}  // namespace giro::detail
