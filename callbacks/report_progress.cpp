#include <giro/callbacks/report_progress.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace giro {
namespace {

// 37'020 s are "10h17m".
std::string format_seconds(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour, kMax = 1e6 * kDay;
  const auto whole = static_cast<std::int64_t>(seconds > 0 ? std::min(seconds, kMax) / kMinute : 0);
  const std::int64_t days = whole / 1440, hours = whole / 60 % 24;
  return fmt::format("{}{}{}m", days > 0 ? fmt::format("{}d", days) : "", hours > 0 ? fmt::format("{}h", hours) : "",
                     whole % 60);
}

ActionInterval interval_of(const ReportProgressOptions& options) {
  ActionInterval interval{options.every_steps, options.every_secs, options.on_steps};
  if (options.num_train_steps > 0) interval.on_steps.push_back(options.num_train_steps);
  return interval;
}

}  // namespace

struct ReportProgress::Memory {
  explicit Memory(const ReportProgressOptions& o)
      : options(o), action("report_progress", interval_of(o)), begin(o.clock()) {}

  // Returns whether it has reported.
  bool pass(std::int64_t step, double t);
  void report(std::int64_t step, double t);

  const ReportProgressOptions options;
  PeriodicAction action;
  double begin;
  std::map<std::string, double> seconds_of_parts;
  std::string text;
};

void ReportProgress::Memory::report(std::int64_t step, double t) {
  const double speed = static_cast<double>(step - action.previous_step()) / (t - action.previous_time());
  const double uptime = options.clock() - begin;
  text = fmt::format("{:.1f} steps/s", speed);
  if (const std::int64_t total = options.num_train_steps; total > 0) {
    text += fmt::format(", {:.1f}% ({}/{}), ETA: {}", 100.0 * static_cast<double>(step) / static_cast<double>(total),
                        step, total, format_seconds(static_cast<double>(total - step) / speed));
  }
  if (!seconds_of_parts.empty()) {
    std::string parts;
    for (const auto& [name, seconds] : seconds_of_parts) {
      parts += fmt::format("{}{:.1f}% {}", parts.empty() ? "" : ", ", 100 * seconds / uptime, name);
    }
    text += fmt::format(" ({} : {})", format_seconds(uptime), parts);
  }
  if (options.out != nullptr) {
    std::fputs((text + '\n').c_str(), options.out);
    std::fflush(options.out);
  }
  if (options.writer) options.writer->write_scalars(step, {{"steps_per_sec", speed}, {"uptime", uptime}});
}

ReportProgress::ReportProgress(const ReportProgressOptions& options) : memory_(std::make_shared<Memory>(options)) {}

bool ReportProgress::Memory::pass(std::int64_t step, double t) {
  action.see(step, t);
  if (step == action.previous_step() || !action.is_due(t)) return false;
  report(step, t);
  action.ran(step, t);
  return true;
}

bool ReportProgress::update(std::int64_t step, std::optional<double> t) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t ? *t : memory_->options.clock());
}

const std::string& ReportProgress::text() const noexcept { return memory_->text; }

ReportProgress::Timed ReportProgress::timed(std::string name) { return {memory_, std::move(name), {}}; }
ReportProgress::Timed ReportProgress::timed(std::string name, const Stream& stream) {
  return {memory_, std::move(name), stream};
}

void ReportProgress::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void ReportProgress::operator()(const Elapsed& elapsed, const Logs&) { memory_->pass(elapsed.steps + 1, elapsed.date); }
void ReportProgress::persist(Archive& archive) { memory_->action.persist(archive); }

ReportProgress::Timed::Timed(std::shared_ptr<Memory> memory, std::string name, std::optional<Stream> stream)
    : memory_(std::move(memory)), name_(std::move(name)), stream_(std::move(stream)) {
  if (stream_) stream_->synchronize();
  start_ = memory_->options.clock();
}

ReportProgress::Timed::~Timed() {
  try {
    if (stream_) stream_->synchronize();
    memory_->seconds_of_parts[name_] += memory_->options.clock() - start_;
  } catch (...) {
  }
}

}  // namespace giro
