#include <giro/callbacks/keras_bar.h>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

namespace giro {
namespace {

std::string format_eta(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s > 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  if (s > 60) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string format_step_time(double seconds) {
  if (seconds >= 1 || seconds <= 0) return fmt::format("{:.0f}s/step", std::max(seconds, 0.0));
  if (seconds >= 1e-3) return fmt::format("{:.0f}ms/step", seconds * 1e3);
  return fmt::format("{:.0f}us/step", seconds * 1e6);
}

// The characters of a line of UTF-8.
std::size_t count_characters(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void cut(std::string& line, std::size_t columns) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((line[i] & 0xC0) == 0x80) continue;
    if (seen++ == columns) {
      line.resize(i);
      return;
    }
  }
}

}  // namespace

struct KerasBar::Drawing {
  explicit Drawing(const KerasBarOptions& options)
      : options(options), terminal(::isatty(::fileno(options.out)) == 1) {}

  ~Drawing() {
    try {
      end();
    } catch (...) {
      // Out of memory for a line of text; destructors do not throw.
    }
  }

  void update(const Elapsed& elapsed, const Logs& logs) {
    if (elapsed.steps < steps || steps == 0) begin(elapsed);
    if (finished) return;
    steps = elapsed.steps + 1;
    date = elapsed.date;
    dated_steps = elapsed.steps;
    if (&logs.schema() != schema) find_metrics(logs.schema());
    for (std::size_t i = 0; i < entry_metrics.size(); ++i) {
      Metric& metric = metrics[entry_metrics[i]];
      if (metric.kind == Kind::hidden) continue;
      const double value = logs.value(i);
      metric.sum = metric.kind == Kind::latest ? value : metric.sum + value;
      metric.count = metric.kind == Kind::latest ? 1 : metric.count + 1;
    }
    if (options.total > 0 && steps >= options.total) {
      draw(true);
      return;
    }
    // A clock that was set back shall not silence the bar.
    const double interval = terminal ? options.interval : options.file_interval;
    if (date < drawn_date || date >= drawn_date + interval) draw(false);
  }

 private:
  enum class Kind { mean, latest, hidden };
  struct Metric {
    std::string collection, name;
    Kind kind = Kind::hidden;
    double sum = 0;
    std::int64_t count = 0;
  };

  // A loop that ended before the total leaves its last line, and what follows begins on another.
  void end() {
    if (steps > begin_steps && !finished) draw(true);
  }

  // The first call, or that of another loop.
  void begin(const Elapsed& elapsed) {
    end();
    begin_steps = elapsed.steps;
    begin_date = elapsed.date;
    // A terminal shows at once that something is going on; a file waits for news.
    drawn_date = terminal ? -std::numeric_limits<double>::infinity() : elapsed.date;
    finished = false;
    metrics.clear();
    schema = nullptr;
  }

  // Steps mostly log the same entries, so their metrics are looked for only when the schema changes.
  void find_metrics(const LogSchema& found) {
    entry_metrics.clear();
    for (std::size_t i = 0; i < found.size(); ++i) entry_metrics.push_back(metric_of(found[i]));
    schema = &found;
  }

  std::size_t metric_of(const LogSchema::Key& entry) {
    const auto same = [&](const Metric& m) { return m.name == entry.name && m.collection == entry.collection; };
    const auto found = std::find_if(metrics.begin(), metrics.end(), same);
    if (found != metrics.end()) return static_cast<std::size_t>(found - metrics.begin());

    Kind kind = Kind::hidden;
    if (entry.collection == "stateful_metrics") kind = Kind::latest;
    if (entry.collection == "metrics" || entry.collection == "losses") kind = Kind::mean;
    const bool is_shown = std::any_of(metrics.begin(), metrics.end(), [&](const Metric& other) {
      return other.name == entry.name && other.kind != Kind::hidden;
    });
    metrics.push_back({entry.collection, entry.name, is_shown ? Kind::hidden : kind});
    return metrics.size() - 1;
  }

  std::string line(bool final) const {
    const double measured = static_cast<double>(dated_steps - begin_steps);
    const double step_time = measured > 0 ? (date - begin_date) / measured : 0;
    std::string text;
    if (options.total > 0) {
      const std::int64_t total = options.total, shown = std::min(steps, total);
      const int digits = static_cast<int>(fmt::formatted_size("{}", total));
      const double progress = static_cast<double>(shown) / static_cast<double>(total);
      const auto done = static_cast<std::size_t>(progress * options.width);
      std::string bar(done, '=');
      if (done > 0 && shown < total) bar.back() = '>';
      bar.resize(static_cast<std::size_t>(options.width), '.');
      text = fmt::format("{:>{}}/{} [{}]", shown, digits, total, bar);
    } else {
      text = fmt::format("{:>7}/Unknown", steps);
    }
    if (final || options.total == 0) {
      const double time = step_time * static_cast<double>(steps - begin_steps);
      text += fmt::format(" - {:.0f}s {}", std::max(time, 0.0), format_step_time(step_time));
    } else if (measured > 0) {
      text += fmt::format(" - ETA: {}", format_eta(step_time * static_cast<double>(options.total - steps)));
    }
    for (const Metric& metric : metrics) {
      if (metric.kind == Kind::hidden) continue;
      const double value = metric.sum / static_cast<double>(metric.count);
      text += std::abs(value) > 1e-3 ? fmt::format(" - {}: {:.4f}", metric.name, value)
                                     : fmt::format(" - {}: {:.4e}", metric.name, value);
    }
    return text;
  }

  void draw(bool final) {
    std::string text = line(final);
    if (terminal) {
      winsize size{};
      const bool known = ::ioctl(::fileno(options.out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
      if (!final) cut(text, known ? size.ws_col : 80);
      const std::size_t characters = count_characters(text);
      // Spaces over what the line before it was longer by.
      text.insert(0, "\r").append(drawn_characters > characters ? drawn_characters - characters : 0, ' ');
      drawn_characters = characters;
    }
    if (final || !terminal) text += '\n';
    std::fwrite(text.data(), 1, text.size(), options.out);
    std::fflush(options.out);
    drawn_date = date;
    if (final) {
      finished = true;
      drawn_characters = 0;
    }
  }

  const KerasBarOptions options;
  const bool terminal;
  std::vector<Metric> metrics;
  const LogSchema* schema = nullptr;        // of the latest logs, and
  std::vector<std::size_t> entry_metrics;  // the metric of each of its entries
  std::int64_t begin_steps = 0;
  double begin_date = 0;
  std::int64_t steps = 0;        // completed
  double date = 0;               // the latest there is, and
  std::int64_t dated_steps = 0;  // the steps that were completed then
  double drawn_date = 0;
  std::size_t drawn_characters = 0;
  bool finished = false;
};

KerasBar::KerasBar(const KerasBarOptions& options) {
  if (options.total < 0 || options.width < 1 || options.out == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("keras_bar: total is {}, width is {}, out is {}; expected total >= 0, width >= 1, a file",
                            options.total, options.width, options.out == nullptr ? "null" : "a file"));
  }
  drawing_ = std::make_shared<Drawing>(options);
}

void KerasBar::operator()(const Elapsed& elapsed, const Logs& logs) { drawing_->update(elapsed, logs); }

}  // namespace giro
