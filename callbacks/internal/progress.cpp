#include "callbacks/internal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace giro::detail {
namespace {

constexpr std::size_t kUnknownColumns = 80;  // of a terminal that does not tell

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
  if (elapsed.steps < steps_ || steps_ == 0) begin(elapsed);
  if (finished_) return;
  steps_ = elapsed.steps + 1;
  date_ = elapsed.date;
  dated_steps_ = elapsed.steps;
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    Metric& metric = metric_of(entry, i);
    if (metric.kind == Kind::hidden) continue;
    const double value = entry.value.value();
    metric.sum = metric.kind == Kind::latest ? value : metric.sum + value;
    metric.count = metric.kind == Kind::latest ? 1 : metric.count + 1;
  }
  if (options_.total > 0 && steps_ >= options_.total) {
    draw(true);
    return;
  }
  // A clock that was set back shall not silence the bar.
  const double interval = terminal_ ? options_.interval : options_.file_interval;
  if (date_ < drawn_date_ || date_ >= drawn_date_ + interval) draw(false);
}

void Progress::end(std::int64_t steps) {
  steps_ = std::max(steps_, steps);
  if (!finished_) draw(true);
  steps_ = 0;
}

double Progress::step_time() const noexcept {
  const double measured = static_cast<double>(dated_steps_ - begin_steps_);
  return measured > 0 ? std::max(date_ - begin_date_, 0.0) / measured : 0;
}

double Progress::seconds() const noexcept { return step_time() * static_cast<double>(steps_here()); }

std::vector<Progress::Shown> Progress::shown() const {
  std::vector<Shown> shown;
  for (const Metric& metric : metrics_) {
    if (metric.kind != Kind::hidden) shown.push_back({metric.name, metric.sum / static_cast<double>(metric.count)});
  }
  return shown;
}

// The first call, or that of another loop.
void Progress::begin(const Elapsed& elapsed) {
  end();
  begin_steps_ = elapsed.steps;
  begin_date_ = elapsed.date;
  // A terminal shows at once that something is going on; a file waits for news.
  drawn_date_ = terminal_ ? -std::numeric_limits<double>::infinity() : elapsed.date;
  metrics_.clear();
  finished_ = options_.total > 0 && elapsed.steps >= options_.total;
  if (finished_ || heading_.empty()) return;
  std::fwrite(heading_.data(), 1, heading_.size(), options_.out);
  std::fputc('\n', options_.out);
  std::fflush(options_.out);
}

// Steps mostly log the same entries in the same order, so the entry's position tells its metric.
Progress::Metric& Progress::metric_of(const Logs::Entry& entry, std::size_t hint) {
  const auto same = [&](const Metric& m) { return m.name == entry.name && m.collection == entry.collection; };
  if (hint < metrics_.size() && same(metrics_[hint])) return metrics_[hint];
  const auto found = std::find_if(metrics_.begin(), metrics_.end(), same);
  if (found != metrics_.end()) return *found;

  Kind kind = Kind::hidden;
  const auto& stateful = options_.stateful_metrics;
  const bool latest = options_.always_stateful || std::count(stateful.begin(), stateful.end(), entry.name) > 0;
  if (entry.collection == "metrics" || entry.collection == "losses") kind = latest ? Kind::latest : Kind::mean;
  if (entry.collection == "stateful_metrics") kind = Kind::latest;
  const bool is_shown = std::any_of(metrics_.begin(), metrics_.end(), [&](const Metric& other) {
    return other.name == entry.name && other.kind != Kind::hidden;
  });
  metrics_.push_back({entry.collection, entry.name, is_shown ? Kind::hidden : kind});
  return metrics_.back();
}

void Progress::draw(bool final) {
  std::size_t columns = 0;
  if (terminal_) {
    winsize size{};
    const bool known = ::ioctl(::fileno(options_.out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    columns = known ? size.ws_col : kUnknownColumns;
  }
  std::string text = format_(*this, final, columns);
  if (terminal_) {
    if (!final) cut(text, columns);
    const std::size_t characters = count_characters(text);
    // Spaces over what the line before it was longer by.
    std::fputc('\r', options_.out);
    drawn_characters_ = std::min(drawn_characters_, columns);  // it may have become narrower
    text.append(drawn_characters_ > characters ? drawn_characters_ - characters : 0, ' ');
    drawn_characters_ = characters;
  }
  if (final || !terminal_) text += '\n';
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
  drawn_date_ = date_;
  if (final) {
    finished_ = true;
    drawn_characters_ = 0;
  }
}

}  // namespace giro::detail
