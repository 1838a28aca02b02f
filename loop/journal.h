#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/loop/log/log_ring.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/span.h>

namespace giro::detail {

// Who is shown the logs of each step in which he is due, when they have arrived.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void observe(const Elapsed&, const Logs&) {}
  virtual std::string name() const { return {}; }
};

// The logs of a run, from the step that writes them to the history. A step's logs are what its host callbacks have
// logged and the rows that its device steps will write; they are committed, and shown to the step's observers, in the
// order of the steps, when all of them have arrived. Costs no allocation a step once it has seen as many steps under
// way as there ever are.
class Journal {
 public:
  Journal(History history, Outputs outputs);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The step at hand: the next row of a ring is part of its logs, and somebody observes it.
  void add(const std::shared_ptr<LogRing>& ring) {
    if (rings_.empty() || rings_.back() != ring) keep(ring);
    now_->rows.push_back({ring.get(), ring->expect()});
  }
  void add(Observer* observer);
  bool has_rows() const noexcept { return !now_->rows.empty(); }
  bool is_empty() const noexcept { return now_->rows.empty() && now_->observers.empty(); }
  // Moves what its device steps have logged to `logs`; the device has come to here.
  void arrive(Logs& logs);
  // The step is over; `logs` are those of the host, and empty afterwards.
  void end_step(const Elapsed& elapsed, Logs& logs);
  // The step has failed, and leaves nothing.
  void drop_step();

  bool has_pending() const noexcept { return size_ > 0; }
  // Commits and shows the steps whose logs have arrived, or all of them: the device has then come to here. now() gives
  // the date for those that are committed. Errors: those of the history and of observers, from which the next drain
  // goes on; device.
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
  // From now on a second error, mostly of the same device or disk, tells nothing new: it ends what it is about, and the
  // rest goes on.
  void set_failing() noexcept { failing_ = true; }

  // Who is being shown which step, or has failed while he was; null if nobody.
  const Observer* showing() const noexcept { return showing_; }
  std::int64_t showing_step() const noexcept { return showing_step_; }
  void forget_showing() noexcept { showing_ = nullptr; }
  // One who has failed is shown nothing more.
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
  // A step whose logs are under way.
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
  // Gives the logs that were committed, which lie in the record or, mostly, in memory that all share.
  const Logs& commit(Record& record, double date);
  void show(Record& record, const Logs& logs);

  History history_;
  Outputs outputs_;
  // Those of the rows that are under way, and others until the device is brought.
  std::vector<std::shared_ptr<LogRing>> rings_;
  std::vector<Record> records_;  // a circle of 2^n, whose memory is used again
  std::size_t first_ = 0, size_ = 0;
  Record* now_;                           // the step at hand, but for its host logs: the record after those under way
  Logs row_logs_;                         // of the row that was read last,
  std::shared_ptr<LogRing> row_logs_of_;  // and of this ring
  bool failing_ = false;
  const Observer* showing_ = nullptr;
  std::int64_t showing_step_ = kNoStep;
  std::vector<const Observer*> failed_;
};

}  // namespace giro::detail
