#include <giro/callbacks/curves.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/throw_error.h"

namespace giro {
namespace {

// The size of a panel, in pixels.
constexpr double kWidth = 520, kHeight = 340;
constexpr double kRight = 22, kTop = 48, kBottom = 52;  // margins of the plot; the left one depends on the labels
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr double kDigitWidth = 7.2;       // approximately, in the ticks' font
constexpr std::size_t kMaxBuckets = 500;  // per line; each gives up to two points

constexpr std::string_view kLineColors[] = {"#2563eb", "#059669", "#d97706", "#7c3aed", "#dc2626", "#0891b2"};

// Finite, and small enough to compute with.
bool is_drawable(double value) { return std::abs(value) < 1e200; }

std::string escape(std::string_view text) {
  using Entity = std::pair<char, std::string_view>;
  constexpr Entity kEntities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string escaped;
  for (const char c : text) {
    const auto* const entity = std::ranges::find(kEntities, c, &Entity::first);
    if (entity != std::end(kEntities)) {
      escaped += entity->second;
    } else {
      escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no control characters
    }
  }
  return escaped;
}

// The range of values that an axis shows, with ticks at multiples of 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0, high = 1;
  double tick = 1;

  // `margin` is the part of the range to add at either end.
  Axis(const std::vector<double>& values, double margin, double min_tick) {
    bool any = false;
    for (const double value : values) {
      if (!is_drawable(value)) continue;
      low = any ? std::min(low, value) : value;
      high = any ? std::max(high, value) : value;
      any = true;
    }
    if (!any) high = 1;
    const double size = std::max(std::abs(low), std::abs(high));
    double pad = (high - low) * margin;
    if (size < 1e-200) {
      pad = 1;  // puts a constant in the middle
    } else if (high - low <= 1e-9 * size) {
      pad = 0.1 * size;
    }
    low -= pad;
    high += pad;
    const double rough = (high - low) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double digit = rough / power;
    tick = std::max(power * (digit < 1.5 ? 1 : digit < 3 ? 2 : digit < 7 ? 5 : 10), min_tick);
  }

  double position(double value) const { return (value - low) / (high - low); }

  std::vector<double> ticks() const {
    std::vector<double> values;
    const double first = std::ceil(low / tick), last = std::floor(high / tick);
    for (int i = 0; first + i <= last; ++i) values.push_back((first + i) * tick + 0.0);  // + 0.0 makes -0 into 0
    return values;
  }

  std::string label(double value) const {
    const double size = std::max(std::abs(low), std::abs(high));
    const int decimals = static_cast<int>(-std::floor(std::log10(tick) + 1e-9));
    if (size < 1e6 && tick > 0.9e-4) return fmt::format("{:.{}f}", value, std::max(decimals, 0));
    const int digits = static_cast<int>(std::floor(std::log10(size))) + decimals + 1;
    return fmt::format("{:.{}g}", value, std::clamp(digits, 1, 15));
  }
};

struct Panel {
  Axis x, y;
  double left, right;  // of the plot

  double x_of(double value) const { return left + x.position(value) * (right - left); }
  double y_of(double value) const { return kTop + (1 - y.position(value)) * kPlotHeight; }
};

// A path that restarts after each interruption.
class Path {
 public:
  explicit Path(const Panel& panel) : panel_(panel) {}

  void add(double x, double y) {
    fmt::format_to(std::back_inserter(data_), "{}{:.2f} {:.2f}", points_ == 0 ? 'M' : 'L', panel_.x_of(x),
                   panel_.y_of(y));
    ++points_;
  }
  void interrupt() {
    if (points_ == 1) data_ += "m-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0";  // a dot
    points_ = 0;
  }
  std::string finish() {
    interrupt();
    return std::move(data_);
  }

 private:
  const Panel& panel_;
  std::string data_;
  int points_ = 0;  // since the last interruption
};

struct Lines {
  std::string raw, mean;
};

// Divides the values into buckets of equal size. The raw line gets each bucket's smallest and largest value, so that it
// loses no spike; the mean line gets the mean of the `window` values around the bucket's middle.
Lines draw_lines(const Panel& panel, const std::vector<double>& steps, const std::vector<double>& values,
                 std::size_t window) {
  Path raw(panel), mean(panel);
  const std::size_t count = values.size(), bucket = (count + kMaxBuckets - 1) / kMaxBuckets;
  for (std::size_t begin = 0; begin < count; begin += bucket) {
    const std::size_t end = std::min(begin + bucket, count);
    std::size_t drawable = 0, least = begin, greatest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!is_drawable(values[i])) continue;
      if (drawable == 0 || values[i] < values[least]) least = i;
      if (drawable == 0 || values[i] > values[greatest]) greatest = i;
      ++drawable;
    }
    const bool whole = drawable == end - begin;
    if (!whole) {
      raw.interrupt();
      mean.interrupt();
    }
    if (drawable == 0) continue;

    const auto [first, second] = std::minmax(least, greatest);
    raw.add(steps[first], values[first]);
    if (second != first) raw.add(steps[second], values[second]);

    const std::size_t middle = begin + (end - begin) / 2;
    const std::size_t window_begin = middle - std::min(middle, window / 2);
    const std::size_t window_end = std::min(middle + (window + 1) / 2, count);
    double sum = 0;
    int summed = 0;
    for (std::size_t i = window_begin; i < window_end; ++i) {
      if (!is_drawable(values[i])) continue;
      sum += values[i];
      ++summed;
    }
    if (summed > 0) mean.add(steps[middle], sum / summed);
    if (!whole) {
      raw.interrupt();
      mean.interrupt();
    }
  }
  return {raw.finish(), mean.finish()};
}

std::string draw_panel(const std::string& key, const std::vector<double>& steps, const std::vector<double>& values,
                       std::size_t index) {
  const Axis x(steps, 0, 1), y(values, 0.04, 0);
  std::size_t longest = 5;  // characters
  for (const double tick : y.ticks()) longest = std::max(longest, y.label(tick).size());
  const double edge = kWidth * static_cast<double>(index);
  const Panel panel{x, y, edge + 28 + kDigitWidth * static_cast<double>(longest), edge + kWidth - kRight};
  const double left = panel.left, right = panel.right, bottom = kTop + kPlotHeight;
  std::string svg;
  const auto put = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg), format, std::forward<Args>(args)...);
  };

  put("<g>\n<path class=\"grid\" d=\"");
  for (const double tick : panel.x.ticks()) put("M{:.2f} {:.2f}V{:.2f}", panel.x_of(tick), kTop, bottom);
  for (const double tick : panel.y.ticks()) put("M{:.2f} {:.2f}H{:.2f}", left, panel.y_of(tick), right);
  put("\"/>\n<path class=\"axis\" d=\"M{:.2f} {:.2f}V{:.2f}H{:.2f}\"/>\n", left, kTop, bottom, right);
  for (const double tick : panel.x.ticks()) {
    put("<text class=\"tick\" x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">{}</text>\n", panel.x_of(tick),
        bottom + 18, panel.x.label(tick));
  }
  for (const double tick : panel.y.ticks()) {
    put("<text class=\"tick\" x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"end\">{}</text>\n", left - 8,
        panel.y_of(tick) + 4, panel.y.label(tick));
  }
  put("<text class=\"label\" x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">step</text>\n", (left + right) / 2,
      bottom + 38);
  put("<text class=\"title\" x=\"{:.2f}\" y=\"30\">{}</text>\n", left, escape(key));

  const bool none = std::none_of(values.begin(), values.end(), is_drawable);
  const std::size_t window = std::max<std::size_t>(values.size() / 50, 1);
  if (none) {
    put("<text class=\"label\" x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">no finite values</text>\n",
        (left + right) / 2, (kTop + bottom) / 2);
  } else {
    const Lines lines = draw_lines(panel, steps, values, window);
    const std::string_view color = kLineColors[index % std::size(kLineColors)];
    if (window > 1) {
      put("<path class=\"raw\" stroke=\"{}\" d=\"{}\"/>\n", color, lines.raw);
      put("<text class=\"tick\" x=\"{:.2f}\" y=\"30\" text-anchor=\"end\">thick: mean of {} values</text>\n", right,
          window);
    }
    put("<path class=\"mean\" stroke=\"{}\" d=\"{}\"/>\n", color, window > 1 ? lines.mean : lines.raw);
  }
  put("</g>\n");
  return svg;
}

constexpr std::string_view kStyle = R"(<style>
text { font-family: system-ui, "Helvetica Neue", Helvetica, Arial, sans-serif; fill: #374151; }
.title { font-size: 16px; font-weight: 600; fill: #111827; }
.label { font-size: 13px; }
.tick { font-size: 12px; fill: #4b5563; }
path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.grid { stroke: #e5e7eb; stroke-width: 1; stroke-linecap: butt; }
.axis { stroke: #9ca3af; stroke-width: 1; stroke-linecap: butt; }
.raw { stroke-width: 1; stroke-opacity: 0.3; }
.mean { stroke-width: 2.25; }
</style>
)";

}  // namespace

void write_curves(const History& history, const std::vector<std::string>& keys, const std::string& path,
                  FileSystem& files) {
  if (keys.empty()) throw_invalid("curves '{}': no keys given", path);
  std::string panels;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [steps, values] = history.collect("elapsed.steps", keys[i]);
    panels += draw_panel(keys[i], steps, values, i);
  }
  const double width = kWidth * static_cast<double>(keys.size());
  replace_file(files, path,
               fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                           "viewBox=\"0 0 {0} {1}\">\n"
                           "{2}<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
                           width, kHeight, kStyle, panels));
}

}  // namespace giro
