#include "callbacks/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <giro/callbacks/progress_bar.h>
#include <giro/loop/time/schedule.h>
#include <giro/runtime/files/archive.h>

#include "callbacks/line_of_text.h"
#include "loop/log/record_text.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr std::size_t kUnknownColumns = 80;  // of a terminal of unknown width

Progress::Options with_known_total(Progress::Options options) {
  if (options.total.steps == 0) options.total.steps.reset();
  return options;
}

}  // namespace

void Progress::check(const char* bar, const Period& total, int width, int min_width, const std::FILE* out) {
  const bool is_positive = total.steps.value_or(0) >= 0 && total.samples.value_or(1) > 0 &&
                           total.tokens.value_or(1) > 0 && total.time.value_or(1) > 0 && total.date.value_or(1) > 0;
  if (is_positive && width >= min_width && out != nullptr) return;
  throw_invalid("{}: total is {}, width is {}, out is {}; expected total >= 0, width >= {}, a file", bar,
                to_string(total), width, out == nullptr ? "null" : "a file", min_width);
}

Progress::Progress(Options options, std::string heading, Format format)
    : options_(with_known_total(std::move(options))),
      heading_(std::move(heading)),
      format_(std::move(format)),
      terminal_(::isatty(::fileno(options_.out)) == 1) {}

Progress::~Progress() {
  try {
    end();
  } catch (...) {
    // Out of memory for a line of text; destructors do not throw.
  }
}

void Progress::update(const Elapsed& elapsed, const Logs& logs) {
  if (elapsed.steps < done_.steps || done_.steps == 0) begin(elapsed);
  if (finished_) return;
  dated_ = done_ = elapsed;
  done_.count(elapsed.step_samples);
  combined_.add(logs, elapsed.step_samples);
  if (done_ >= options_.total) {
    draw(true);
    return;
  }
  // A clock that was set back must not stop the bar.
  const double interval = terminal_ ? options_.interval : options_.file_interval;
  if (elapsed.date < drawn_date_ || elapsed.date >= drawn_date_ + interval) draw(false);
}

void Progress::end(const Elapsed& elapsed) {
  done_.steps = std::max(done_.steps, elapsed.steps);
  done_.samples = std::max(done_.samples, elapsed.samples);
  done_.date = std::max(done_.date, elapsed.date);
  if (!finished_) draw(true);
  done_.steps = 0;
}

void Progress::persist(Archive& archive) {
  archive("combined", combined_)("begin", begin_)("done", done_)("dated", dated_)("finished", finished_);
  archive.date("drawn_date", drawn_date_);
  if (!archive.is_reading() || done_.steps == 0) return;
  // The total may have changed since. One in tokens can only be compared if the run counted tokens.
  finished_ = (!options_.total.tokens || done_.tokens_per_sample > 0) && done_ >= options_.total;
}

double Progress::step_time() const noexcept {
  const double measured = static_cast<double>(dated_.steps - begin_.steps);
  return measured > 0 ? std::max(dated_.date - begin_.date, 0.0) / measured : 0;
}

Progress::Goal Progress::goal() const {
  Goal furthest;
  const auto consider = [&](double begin, double dated, double done, double total, bool is_time) {
    if (total <= 0 || (furthest.total > 0 && done / total <= furthest.done / furthest.total)) return;
    furthest = {.done = std::clamp(done, 0.0, total), .total = total, .is_time = is_time, .left = {}};
    const double missing = total - furthest.done, seconds = std::max(dated_.date - begin_.date, 0.0);
    if (missing <= 0) furthest.left = 0;
    if (missing > 0 && seconds > 0 && dated > begin) furthest.left = missing * seconds / (dated - begin);
  };
  const auto count = [&](std::int64_t Elapsed::*field, std::int64_t total, std::int64_t each = 1) {
    const auto of = [&](const Elapsed& at) { return static_cast<double>(each * (at.*field)); };
    consider(of(begin_), of(dated_), of(done_), static_cast<double>(total), false);
  };
  const Period& total = options_.total;
  const double started = done_.date_start;
  if (total.steps) count(&Elapsed::steps, *total.steps);
  if (total.samples) count(&Elapsed::samples, *total.samples);
  if (total.tokens) count(&Elapsed::samples, *total.tokens, done_.tokens_of(1));
  for (const std::optional<double> end :
       {total.time, total.date ? std::optional(*total.date - started) : std::nullopt}) {
    if (end) consider(begin_.date - started, dated_.date - started, done_.date - started, *end, true);
  }
  return furthest;
}

std::string Progress::Goal::text(double amount) const { return fmt::format("{:.0f}{}", amount, is_time ? "s" : ""); }

double Progress::seconds() const noexcept { return step_time() * static_cast<double>(steps_here()); }

std::vector<Progress::Shown> Progress::shown() const {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < combined_.schema().size(); ++i) {
    const auto& [collection, name] = combined_.schema()[i];
    const bool is_metric = collection == "metrics" || collection == "losses" || collection == "stateful_metrics";
    if (!is_metric || std::ranges::find(shown, name, &Shown::name) != shown.end()) continue;
    const auto& stateful = options_.stateful_metrics;
    const bool is_latest = options_.always_stateful || std::ranges::find(stateful, name) != stateful.end();
    const double value = is_latest ? combined_.last(i) : combined_.value(i).value();
    shown.push_back({name, without_nan_sign(value)});
  }
  return shown;
}

// Starts the bar for another loop.
void Progress::begin(const Elapsed& elapsed) {
  end();
  begin_ = elapsed;
  // A terminal shows the bar at once; a file gets its first line after file_interval.
  drawn_date_ = terminal_ ? -std::numeric_limits<double>::infinity() : elapsed.date;
  combined_ = {};
  finished_ = elapsed >= options_.total;
  if (finished_ || heading_.empty()) return;
  std::fwrite(heading_.data(), 1, heading_.size(), options_.out);
  std::fputc('\n', options_.out);
  std::fflush(options_.out);
}

void Progress::draw(bool final) {
  std::size_t columns = 0;
  if (terminal_) {
    winsize size{};
    const bool known = ::ioctl(::fileno(options_.out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    columns = known ? size.ws_col : kUnknownColumns;
  }
  auto [text, taken] = line_of(format_(*this, final, columns), terminal_ && !final ? columns : std::string::npos);
  if (terminal_) {
    // Spaces cover the end of a longer previous line.
    std::fputc('\r', options_.out);
    drawn_columns_ = std::min(drawn_columns_, columns);  // the terminal may have become narrower
    text.append(drawn_columns_ > taken ? drawn_columns_ - taken : 0, ' ');
    drawn_columns_ = taken;
  }
  if (final || !terminal_) text += '\n';
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
  drawn_date_ = done_.date;
  if (final) {
    finished_ = true;
    drawn_columns_ = 0;
  }
}

}  // namespace giro::detail

namespace giro {

void ProgressBar::operator()(const Elapsed& elapsed, const Logs& logs) { progress_->update(elapsed, logs); }
void ProgressBar::on_end(const Elapsed& elapsed) { progress_->end(elapsed); }
void ProgressBar::persist(Archive& archive) { progress_->persist(archive); }

}  // namespace giro
