#include <giro/callbacks/progress_bar.h>

#include <fmt/format.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <giro/callbacks/keras_bar.h>
#include <giro/callbacks/tqdm_bar.h>
#include <giro/loop/log/combined_logs.h>
#include <giro/loop/time/schedule.h>
#include <giro/runtime/files/archive.h>

#include "loop/log/record_text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace detail {
namespace {

constexpr std::size_t kUnknownColumns = 80;  // of a terminal of unknown width

// While it lives, this thread reads characters as UTF-8, whatever the program's locale. On a system without such a
// locale each byte beyond ASCII becomes a space.
class Utf8Scope : NotCopied {
 public:
  Utf8Scope() {
    static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (utf8 != nullptr) before_ = ::uselocale(utf8);
  }
  ~Utf8Scope() {
    if (before_ != nullptr) ::uselocale(before_);
  }

 private:
  locale_t before_ = nullptr;
};

// UTF-8 text in one line of a terminal.
struct LineOfText {
  std::string text;
  std::size_t columns = 0;  // on the terminal: a wide character takes two, a combining one none
};

// As much of `text` as fits into `columns`. A character that cannot be shown, such as a line break, becomes a space.
LineOfText line_of(std::string_view text, std::size_t columns = std::string_view::npos) {
  const Utf8Scope scope;
  LineOfText line;
  std::mbstate_t state{};
  for (std::size_t i = 0, bytes = 0; i < text.size(); i += bytes) {
    wchar_t character = 0;
    bytes = ::mbrtowc(&character, text.data() + i, text.size() - i, &state);
    const bool is_valid = bytes != 0 && bytes <= text.size() - i;
    const int width = is_valid ? ::wcwidth(character) : -1;
    if (!is_valid) {
      bytes = 1;
      state = {};
    }
    const std::size_t taken = width < 0 ? 1 : static_cast<std::size_t>(width);
    if (line.columns + taken > columns) break;
    line.columns += taken;
    line.text += width < 0 ? " " : text.substr(i, bytes);
  }
  return line;
}

}  // namespace

// Shared by the progress bars: when to draw, which logs to show, and the output: one line redrawn in place on a
// terminal, whole lines elsewhere.
class Progress : NotCopied {
 public:
  struct Options {
    Period total = {};    // no field set: unknown
    double interval = 0;  // seconds between redraws on a terminal
    double file_interval = 0;
    std::vector<std::string> stateful_metrics = {};  // shown as their latest value
    bool always_stateful = false;
    std::FILE* out = nullptr;
  };
  // Makes a line for a width of `columns`, 0 for no limit; `final` if it is the last line.
  using Format = std::function<std::string(const Progress&, bool final, std::size_t columns)>;
  struct Shown {
    std::string name;
    double value;
  };
  // What the bar shows: the progress in the field of the total that is furthest along.
  struct Goal {
    double done = 0, total = 0;  // done is at most total; total 0: unknown
    bool is_time = false;        // in seconds, rather than a count
    std::optional<double> left;  // seconds, at the speed so far

    // "450", or "12s"
    std::string text(double amount) const { return fmt::format("{:.0f}{}", amount, is_time ? "s" : ""); }
  };

  // From the options of a bar. Error(invalid_argument), naming the bar, unless there is a file, the width is at least
  // `min_width`, and all fields of the total are positive; 0 steps count as unset.
  template <class BarOptions>
  static Options options_of(const char* bar, const BarOptions& given, int min_width) {
    Period total = given.total;
    const bool is_positive = total.steps.value_or(0) >= 0 && total.samples.value_or(1) > 0 &&
                             total.tokens.value_or(1) > 0 && total.time.value_or(1) > 0 && total.date.value_or(1) > 0;
    if (!is_positive || given.width < min_width || given.out == nullptr) {
      throw_invalid("{}: total is {}, width is {}, out is {}; expected total >= 0, width >= {}, a file", bar,
                    to_string(total), given.width, given.out == nullptr ? "null" : "a file", min_width);
    }
    if (total.steps == 0) total.steps.reset();
    return {total, given.interval, given.file_interval, given.stateful_metrics, given.always_stateful, given.out};
  }

  // `heading` is a line above the bar, or empty.
  Progress(Options options, std::string heading, Format format);
  ~Progress();

  void update(const Elapsed& elapsed, const Logs& logs);
  // Draws the last line of a loop that ended before its total, at `elapsed` if that is known. The next update begins
  // another loop.
  void end(const Elapsed& elapsed = {});
  // Saves or restores what is shown, for a resumed run.
  void persist(Archive& archive);

  Goal goal() const;
  std::int64_t steps() const noexcept { return done_.steps; }                      // completed
  std::int64_t steps_here() const noexcept { return done_.steps - begin_.steps; }  // completed since the loop began
  // Since the loop began, assuming the latest step took as long as the others.
  double seconds() const noexcept { return step_time() * static_cast<double>(steps_here()); }
  double step_time() const noexcept;  // seconds; 0: unknown
  std::vector<Shown> shown() const;

 private:
  void begin(const Elapsed& elapsed);
  void draw(bool final);

  const Options options_;
  const std::string heading_;
  const Format format_;
  const bool terminal_;
  CombinedLogs combined_;  // of the steps since the loop began
  Elapsed begin_;
  Elapsed done_;   // including the latest step
  Elapsed dated_;  // at the latest date, so without the latest step
  double drawn_date_ = 0;
  std::size_t drawn_columns_ = 0;
  bool finished_ = true;
};

Progress::Progress(Options options, std::string heading, Format format)
    : options_(std::move(options)),
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

}  // namespace detail

namespace {

std::string format_eta(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s > 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  if (s > 60) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string format_step_time(double seconds, const std::string& unit) {
  if (seconds >= 1 || seconds <= 0) return fmt::format("{:.0f}s/{}", std::max(seconds, 0.0), unit);
  if (seconds >= 1e-3) return fmt::format("{:.0f}ms/{}", seconds * 1e3, unit);
  return fmt::format("{:.0f}us/{}", seconds * 1e6, unit);
}

std::string keras_line(const detail::Progress& progress, bool final, int width, const std::string& unit) {
  std::string text;
  const detail::Progress::Goal goal = progress.goal();
  const bool has_total = goal.total > 0;
  if (has_total) {
    const std::string total = goal.text(goal.total);
    const auto done = static_cast<std::size_t>(goal.done / goal.total * width);
    std::string bar(done, '=');
    if (done > 0 && goal.done < goal.total) bar.back() = '>';
    bar.resize(static_cast<std::size_t>(width), '.');
    text = fmt::format("{:>{}}/{} [{}]", goal.text(goal.done), total.size(), total, bar);
  } else {
    text = fmt::format("{:>7}/Unknown", progress.steps());
  }
  if (final || !has_total) {
    text += fmt::format(" - {:.0f}s {}", progress.seconds(), format_step_time(progress.step_time(), unit));
  } else if (progress.steps_here() > 1) {
    text += fmt::format(" - ETA: {}", format_eta(goal.left.value_or(0)));
  }
  for (const auto& [name, value] : progress.shown()) {
    text +=
        std::abs(value) > 1e-3 ? fmt::format(" - {}: {:.4f}", name, value) : fmt::format(" - {}: {:.4e}", name, value);
  }
  return text;
}

std::string heading_of(const KerasBarOptions& options) {
  if (!options.epoch) return "";
  const std::string of = options.num_epochs ? fmt::format("/{}", *options.num_epochs) : "";
  return fmt::format("Epoch {}{}", *options.epoch + 1, of);
}

std::string format_interval(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{:02}:{:02}", s / 60, s % 60);
}

std::string format_rate(double step_time, const std::string& unit) {
  if (step_time <= 0) return fmt::format("?{}/s", unit);
  if (step_time > 1) return fmt::format("{:5.2f}s/{}", step_time, unit);
  return fmt::format("{:5.2f}{}/s", 1 / step_time, unit);
}

// Ten levels per character.
std::string format_bar(double done, std::size_t width) {
  constexpr std::size_t kLevels = 10;
  const auto levels = static_cast<std::size_t>(done * static_cast<double>(width * kLevels));
  std::string bar(levels / kLevels, '#');
  if (bar.size() < width && levels % kLevels > 0) bar += static_cast<char>('0' + levels % kLevels);
  bar.resize(width, ' ');
  return bar;
}

std::string tqdm_line(const detail::Progress& progress, const TqdmBarOptions& options, std::size_t columns) {
  constexpr std::size_t kDefaultWidth = 10;
  const detail::Progress::Goal goal = progress.goal();
  const bool has_total = goal.total > 0;
  std::string end = format_interval(progress.seconds());
  if (has_total) end.append(1, '<').append(goal.left ? format_interval(*goal.left) : "?");
  end += ", ";
  end += format_rate(progress.step_time(), options.unit);
  for (const auto& [name, value] : progress.shown()) end += fmt::format(", {}={:.3g}", name, value);
  end += "]";
  const std::string begin = options.desc.empty() ? std::string() : options.desc + ": ";
  if (!has_total) return fmt::format("{}{}{} [{}", begin, progress.steps(), options.unit, end);

  const double done = goal.done / goal.total;
  const std::string before = fmt::format("{}{:3.0f}%|", begin, done * 100);
  const std::string behind = fmt::format("| {}/{} [{}", goal.text(goal.done), goal.text(goal.total), end);
  std::size_t width = options.width > 0 ? static_cast<std::size_t>(options.width) : kDefaultWidth;
  if (options.width == 0 && columns > 0) {
    const std::size_t others = detail::line_of(before + behind).columns;
    width = columns > others ? columns - others : 1;
  }
  return before + format_bar(done, width) + behind;
}

}  // namespace

void ProgressBar::operator()(const Elapsed& elapsed, const Logs& logs) { progress_->update(elapsed, logs); }
void ProgressBar::on_end(const Elapsed& elapsed) { progress_->end(elapsed); }
void ProgressBar::persist(Archive& archive) { progress_->persist(archive); }

KerasBar::KerasBar(const KerasBarOptions& options)
    : ProgressBar(std::make_shared<detail::Progress>(
          detail::Progress::options_of("keras_bar", options, 1), heading_of(options),
          [width = options.width, unit = options.unit_name](const detail::Progress& progress, bool final, std::size_t) {
            return keras_line(progress, final, width, unit);
          })) {}

TqdmBar::TqdmBar(const TqdmBarOptions& options)
    : ProgressBar(
          std::make_shared<detail::Progress>(detail::Progress::options_of("tqdm_bar", options, 0), "",
                                             [options](const detail::Progress& progress, bool, std::size_t columns) {
                                               return tqdm_line(progress, options, columns);
                                             })) {}

}  // namespace giro
