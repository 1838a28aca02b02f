#include <giro/loop/step/step_recording.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include <giro/kernels/nn/elementwise.h>
#include <giro/runtime/span.h>
#include <giro/runtime/step_context.h>

#include "kernels/elementwise.h"
#include "kernels/nn/store.h"
#include "kernels/rules/record.h"
#include "loop/data/resident_rows.h"
#include "runtime/backend.h"
#include "runtime/op_by_op.h"
#include "runtime/program/recording.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

std::atomic<std::uint64_t> next_id = 1;

bool same_features(const Batch::Features& a, const Batch::Features& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.second.dtype() == y.second.dtype() && x.second.shape() == y.second.shape() && x.first == y.first;
  });
}

void check_device(const StepCall& call) {
  const auto check = [&](Device device) {
    if (device != call.state.device()) {
      throw_error(ErrorCode::device_mismatch, "the batch is on {}, the state on {}", to_string(device),
                  to_string(call.state.device()));
    }
  };
  if (call.batch.resident_rows()) check(call.batch.resident_rows()->device());
  for (const auto& [name, tensor] : call.batch.features()) {
    if (tensor.device().is_cuda()) check(tensor.device());
  }
}

// Ranks that each train on whole batches would count every sample several times.
void check_part(const StepCall& call) {
  const int ranks = call.partitioner != nullptr ? call.partitioner->size() : 1;
  const std::optional<BatchPart>& part = call.batch.part();
  const bool is_empty = call.batch.features().empty() && !call.batch.resident_rows();
  if ((part ? part->ranks : 1) == ranks || is_empty) return;
  throw_invalid(
      "{} rank{} on the state, but the batch is {}; expected batches from Dataset::partition, or Batch::set_part",
      ranks, ranks == 1 ? " works" : "s work", part ? fmt::format("one of {} parts", part->ranks) : "whole");
}

Buffer zero(const Stream& stream) {
  Buffer counter = Buffer::allocate(stream.device(), sizeof(std::int64_t));
  stream.fill(counter.data(), 0, counter.size());
  return counter;
}

// Whether the entries of a collection of logs are averaged over the ranks.
bool is_averaged(const std::string& collection) { return collection == "losses" || collection == "metrics"; }

// Replaces losses and metrics by their means over the ranks, where this rank has the given weight, and totals by their
// sums. Metrics with counts become the metrics of all elements on all ranks.
void average_logs(Logs& logs, const Partitioner& partitioner, double weight, const Stream& stream) {
  std::vector<std::pair<std::size_t, double>> entries;            // positions and factors
  std::vector<std::pair<std::size_t, LogSchema::Parts>> counted;  // metrics with a count, and their other data
  const std::vector<LogSchema::Parts> parts = logs.schema().parts();
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    if (logs.values()[i].scalar() == nullptr) continue;
    if (parts[i].count && logs.values()[*parts[i].count].scalar() != nullptr) {
      counted.emplace_back(i, parts[i]);
    } else if (is_averaged(logs.schema()[i].collection)) {
      const bool is_sum = logs.schema().rule(i) == LogSchema::Rule::sum;
      entries.emplace_back(i, !is_sum ? weight : weight > 0 ? partitioner.size() : 0);
    }
  }
  if (entries.empty() && counted.empty()) return;
  const auto allocate = [&](std::size_t count) {
    return nn::uninitialized(DType::f64, {static_cast<std::int64_t>(count)}, stream);
  };
  const auto element = [](const nn::Var& of, std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return of.value().rows(at, at + 1).reshape({});
  };
  const auto value = [&](std::size_t entry) { return logs.values()[entry].scalar()->value(); };

  const nn::Var means = allocate(entries.size() + 3 * counted.size());
  const auto sums = [&](std::size_t i) {
    const auto begin = static_cast<std::int64_t>(entries.size() + 3 * i);
    return means.value().rows(begin, begin + 3);
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [entry, factor] = entries[i];
    ops::scale(element(means, i), value(entry), factor, stream);
  }
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const auto& [number, of] = counted[i];
    ops::moment_sums(sums(i), value(of.mean.value_or(of.logarithm.value_or(number))),
                     of.mean ? value(number) : Tensor(), value(*of.count), stream);
    // A part without samples holds a row that does not count.
    if (weight == 0) ops::fill(sums(i), 0, stream);
  }
  partitioner.mean(means.value(), stream);
  for (std::size_t i = 0; i < entries.size(); ++i) logs.values()[entries[i].first] = nn::Var(element(means, i), stream);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const auto& [number, of] = counted[i];
    const nn::Var of_all = allocate(3);
    ops::moments_of_sums(element(of_all, 0), of.mean ? element(of_all, 1) : Tensor(), element(of_all, 2), sums(i),
                         partitioner.size(), stream);
    logs.values()[number] = nn::Var(element(of_all, of.mean ? 1 : 0), stream);
    logs.values()[*of.count] = nn::Var(element(of_all, 2), stream);
    if (of.mean) logs.values()[*of.mean] = nn::Var(element(of_all, 0), stream);
    if (of.logarithm) {
      const nn::Var of_losses(element(of_all, 0), stream);
      logs.values()[*of.logarithm] = of_losses;
      logs.values()[number] = exp(of_losses);
    }
  }
}

const State& checked(const StepCall& call) {
  if (call.state.moved_from()) throw_invalid("a step was given a state that was moved from");
  check_device(call);
  check_part(call);
  return call.state;
}

}  // namespace

std::string name_of_step(const std::source_location& where) {
  return where.line() != 0 ? fmt::format("the step of {}:{}", where.file_name(), where.line()) : "a step";
}

// The number of a step's calls in flight, for error messages.
struct StepRecording::Calls : CallProgress {
  explicit Calls(std::string step) : name(std::move(step)) {}
  std::string describe() const override {
    const std::int64_t made = prepared.load(std::memory_order_relaxed);
    const std::shared_ptr<const LogRing> ring = logs();
    const std::int64_t done = ring ? std::min(ring->published(), made) : 0;
    return done < made ? fmt::format("{} had completed {} of {} calls", name, done, made) : "";
  }

  std::shared_ptr<const LogRing> logs() const {
    const std::lock_guard lock(mutex_);
    return logs_;
  }
  void set_logs(std::shared_ptr<const LogRing> logs) {
    const std::lock_guard lock(mutex_);
    logs_ = std::move(logs);
  }

  const std::string name;
  std::atomic<std::int64_t> prepared = 0;

 private:
  mutable std::mutex mutex_;  // another thread may call describe() while it waits
  std::shared_ptr<const LogRing> logs_;
};

StepRecording::StepRecording(const StepCall& call, const StepBody& body, Mode mode, const std::source_location& where,
                             bool is_checked)
    : state_(checked(call).identity()),
      state_id_(call.state.identity().get()),
      resident_rows_(call.batch.resident_rows()),
      resident_rows_id_(call.batch.resident_rows().get()),
      rows_(call.batch.size()),
      part_(call.batch.part()),
      partitioner_(call.partitioner),
      is_checked_(is_checked || partitioner_ == nullptr || partitioner_->size() == 1),
      statics_(call.statics.copy(call.statics.value)),
      stream_(call.state.stream()),
      call_storage_(zero(stream_)),
      call_(call_storage_.data(), DType::i64, {}, stream_.device()),
      inputs_(call.batch, call.broadcasts, call_, call.state.context()),
      is_blocking_(wants_op_by_op()),
      calls_(std::make_shared<Calls>(name_of_step(where))),
      id_(next_id++) {
  stream_.impl().add_progress(calls_);
  if (mode == Mode::eager) return;
  const Span span("record", "record a step");
  graph_ = rules::record(
      stream_,
      [&] {
        const Logs logs = run_body(body);
        logs_ = LogRing::create(logs, call_, stream_);
        logs_->publish(logs);
      },
      {.name = calls_->name, .leaves = is_blocking_ ? names(call.state) : std::vector<Leaf>(), .state = &call.state});
  calls_->set_logs(logs_);
  // When the graph runs op by op, work that is not one of giro's ops runs only when the function is called.
  calls_function_ = is_blocking_ && !std::ranges::all_of(graph_->program().nodes(), &Program::Node::is_op);
}

bool StepRecording::matches(const StepCall& call) const {
  if (failed_ || call.state.identity().get() != state_id_ || call.batch.resident_rows().get() != resident_rows_id_)
    return false;
  if (graph_ && !graph_->states_are_valid()) return false;
  const Batch::Features& values = inputs_.broadcasts().values().features();
  if (call.batch.part() != part_) return false;
  if (values.size() != call.broadcasts.values().features().size()) return false;
  if (!values.empty() && !same_features(call.broadcasts.values().features(), values)) return false;
  if (!call.statics.equal(statics_.get(), call.statics.value)) return false;
  return resident_rows_id_ != nullptr ? call.batch.size() == rows_
                                      : same_features(call.batch.features(), inputs_.batch().features());
}

bool StepRecording::expired() const {
  return failed_ || state_.expired() || (graph_ && !graph_->states_are_valid()) ||
         (resident_rows_id_ != nullptr && resident_rows_.expired());
}

bool StepRecording::has_slot() const { return !logs_ || prepared_ - logs_->published() < inputs_.capacity(); }

bool StepRecording::has_room() const { return has_slot() && logs_->has_room(); }

std::int64_t StepRecording::max_held() const {
  if (is_blocking_) return 1;
  return std::max<std::int64_t>(1, std::min(logs_->capacity(), inputs_.capacity()) / 2);
}

void StepRecording::prepare(const StepCall& call) {
  check_device(call);
  inputs_.fill(prepared_, call.batch, call.broadcasts);
  ++prepared_;
  calls_->prepared.store(prepared_, std::memory_order_relaxed);
}

Logs StepRecording::call(const StepCall& call, const StepBody& body) {
  if (!has_slot()) stream_.synchronize();
  prepare(call);
  inputs_.flush();
  if (!is_eager()) {
    Logs logs = logs_->expect_logs();
    graph_->replay(stream_);
    return logs;
  }
  StepScope scope;
  scope.is_op_by_op |= is_blocking_;
  try {
    const Logs logs = run_body(body);
    if (!logs_ || !logs_->takes(logs)) {
      // The new ring treats all earlier calls as done.
      if (logs_) stream_.synchronize();
      logs_ = LogRing::create(logs, call_, stream_, prepared_ - 1);
      calls_->set_logs(logs_);
    }
    Logs sent = logs_->expect_logs(logs);
    logs_->publish(logs);
    return sent;
  } catch (...) {
    if (is_blocking_) rethrow_from(fmt::format("call {} of {}", prepared_, calls_->name));
    throw;
  }
}

// Calls the function with the inputs on the device.
Logs StepRecording::run_body(const StepBody& body) {
  std::int64_t draws = 0;
  StepScope scope;
  scope.name = &calls_->name;
  scope.call = &call_;
  scope.stream = &stream_;
  inputs_.take();
  const auto resident_rows = resident_rows_.lock();
  Batch batch = resident_rows ? resident_rows->gather(rows_, inputs_.positions(), stream_) : inputs_.batch();
  batch.set_part(part_);
  scope.weight = part_ ? part_->weight() : 1;
  scope.first_row = part_ ? part_->first_row : 0;
  scope.rows = batch.size();
  scope.ranks = {std::shared_ptr<void>(), partitioner_};
  scope.parts = 1;
  scope.draws = &draws;
  Logs logs = body(batch, inputs_.broadcasts());
  if (!is_checked_) describe(logs);
  // What is recorded is compared before its first replay.
  if (Recording::current() == nullptr && must_compare_ranks()) compare_ranks();
  if (partitioner_ != nullptr && partitioner_->size() > 1) average_logs(logs, *partitioner_, scope.weight, stream_);
  return logs;
}

// Notes what the function has queued, if it is being recorded, and logged.
void StepRecording::describe(const Logs& logs) {
  ops_.clear();
  entries_.clear();
  if (const Recording* const recording = Recording::current()) {
    sends_ = recording->has_collectives;
    for (const Program::Node& node : recording->owned.program.nodes()) ops_ += fmt::format("the op {}\n", node.op);
    for (const HeldOp& op : recording->held()) ops_ += fmt::format("the op {}\n", op.node.op);
  }
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    const auto& [collection, name] = logs.schema()[i];
    entries_ += fmt::format("the log entry {}.{}\n", collection, name);
    sends_ |= (is_averaged(collection) || collection == kCounts) && logs.values()[i].scalar() != nullptr;
  }
}

void StepRecording::compare_ranks() {
  const OutsideRecording outside;
  // Parts of different sizes may be computed by different ops: one without samples is multiplied by 0.
  double is_uneven = part_ && part_->rows * part_->ranks != part_->samples ? 1 : 0;
  partitioner_->all_reduce_max({&is_uneven, 1});
  partitioner_->expect_same(calls_->name, is_uneven > 0 ? entries_ : ops_ + entries_);
  is_checked_ = true;
  ops_.clear();
  entries_.clear();
}

// Names the memory that its ops use: the state's leaves, and the inputs of its calls.
std::vector<Leaf> StepRecording::names(const State& state) const {
  std::vector<Leaf> names = state.flatten();
  names.push_back({"call", call_});
  names.push_back({"inputs", inputs_.positions().slots});
  if (const auto resident_rows = resident_rows_.lock()) {
    for (const auto& [name, rows] : resident_rows->rows()) names.push_back({"data/" + name, rows});
  }
  return names;
}

Program StepRecording::program(const State& state) const {
  Program program = graph_->program();
  program.set_names(names(state));
  return program;
}

Program StepRecording::program_of(const StepCall& call, const StepBody& body, const std::source_location& where) {
  return StepRecording(call, body, Mode::recorded, where).program(call.state);
}

StepMemory StepRecording::memory_of(const StepCall& call, const StepBody& body, const std::source_location& where) {
  const StepRecording recording(call, body, Mode::recorded, where);
  return {.inputs = recording.inputs_.bytes(),
          .temporaries = recording.graph_->program().memory(),
          .reserved = recording.graph_->arena_bytes()};
}

const Graph& StepRecording::sequence(std::span<StepRecording* const> parts) {
  constexpr std::size_t kMax = 16;
  std::vector<std::uint64_t> ids;
  std::vector<const Graph*> graphs;
  for (StepRecording* part : parts) {
    ids.push_back(part->id_);
    graphs.push_back(&*part->graph_);
  }
  const auto found = sequences_.find(ids);
  if (found != sequences_.end()) return found->second;
  if (sequences_.size() >= kMax) sequences_.clear();
  return sequences_.emplace(std::move(ids), Graph::sequence(graphs)).first->second;
}

}  // namespace giro::detail
