#include <giro/callbacks/curves.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

struct Point {
  double x, y;
};

// The history of one metric.
History history_of(const std::string& name, const std::vector<double>& values) {
  History history;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i);
    history.commit({.steps = step, .samples = step, .date = static_cast<double>(i), .date_start = 0},
                   logs().add_metric(name, values[i]));
  }
  return history;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class Curves : public testing::Test {
 protected:
  std::string draw(const History& history, const std::vector<std::string>& keys) const {
    write_curves(history, keys, dir_ / "curves.svg");
    const std::string svg = test::read_text(dir_ / "curves.svg");
    check(svg);
    return svg;
  }
  std::string draw(const std::vector<double>& values) const { return draw(history_of("loss", values), {"loss"}); }

  // The properties of every picture: closed elements, finite numbers, and nothing loaded from elsewhere.
  static void check(const std::string& svg) {
    EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg.substr(0, 100);
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_EQ(occurrences(svg, "<text "), occurrences(svg, "</text>"));
    EXPECT_EQ(occurrences(svg, "<g>"), occurrences(svg, "</g>"));
    for (const char* word : {"nan ", "inf ", "\"nan", "\"inf", "-nan", "<script", "href", "@import", "url("}) {
      EXPECT_EQ(svg.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(occurrences(svg, "http"), 1u);
    EXPECT_LT(svg.size(), 100'000u);
  }

  // The points of the line with a class, "raw" or "mean". `pieces` counts the moves among them.
  static std::vector<Point> line(const std::string& svg, const std::string& name, std::size_t* pieces = nullptr) {
    const std::size_t element = svg.find("<path class=\"" + name + "\"");
    if (element == svg.npos) return {};
    const std::size_t begin = svg.find(" d=\"", element) + 4;
    const std::string data = svg.substr(begin, svg.find('"', begin) - begin);
    if (pieces != nullptr) *pieces = static_cast<std::size_t>(std::count(data.begin(), data.end(), 'M'));
    std::vector<Point> points;
    for (std::size_t at = data.find_first_of("ML"); at != data.npos; at = data.find_first_of("ML", at + 1)) {
      Point point{};
      EXPECT_EQ(std::sscanf(data.c_str() + at + 1, "%lf %lf", &point.x, &point.y), 2);
      points.push_back(point);
    }
    return points;
  }

  test::TemporaryDirectory dir_;
};

std::vector<double> noisy(std::size_t size) {
  std::vector<double> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = i % 2 == 0 ? 0.0 : 1.0;
  return values;
}

TEST_F(Curves, DrawsOnePanelPerKey) {
  History history;
  for (int step = 0; step < 10; ++step) {
    history.commit({.steps = step}, logs().add_metric("loss", 1.0 / (step + 1)).add_metric("accuracy", step / 10.0));
  }
  const std::string svg = draw(history, {"loss", "metrics.accuracy", "samples"});
  EXPECT_EQ(occurrences(svg, "<g>"), 3u);
  EXPECT_EQ(occurrences(svg, "class=\"mean\""), 3u);
  EXPECT_EQ(occurrences(svg, ">step</text>"), 3u);
  EXPECT_NE(svg.find(">loss</text>"), std::string::npos);
  EXPECT_NE(svg.find(">metrics.accuracy</text>"), std::string::npos);
}

TEST_F(Curves, DrawsEveryPointOfAShortLine) {
  const std::string svg = draw({3, 1, 2});
  const std::vector<Point> points = line(svg, "mean");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].x - points[0].x, points[2].x - points[1].x, 0.02);
  EXPECT_NEAR(points[1].y - points[0].y, 2 * (points[1].y - points[2].y), 0.03);  // y grows downwards
  EXPECT_GT(points[1].y, points[0].y);
  EXPECT_TRUE(line(svg, "raw").empty());
}

TEST_F(Curves, TicksAreRoundNumbers) {
  const std::string svg = draw({0.0, 0.37, 1.0});
  for (const char* label : {">0.0<", ">0.2<", ">0.4<", ">0.6<", ">0.8<", ">1.0<"}) {
    EXPECT_NE(svg.find(label), std::string::npos) << label;
  }
  const std::string small = draw({1.0e-6, 3.0e-6});
  EXPECT_NE(small.find(">2e-06<"), std::string::npos) << small;
  const std::string large = draw({1'000'000, 6'000'000});
  EXPECT_NE(large.find(">3e+06<"), std::string::npos) << large;
}

TEST_F(Curves, KeepsSpikesOfLongLines) {
  std::vector<double> values(100'000, 1.0);
  values[54'321] = 9;
  values[54'322] = -9;
  const std::string svg = draw(values);
  const std::vector<Point> raw = line(svg, "raw");
  EXPECT_LE(raw.size(), 1000u);
  EXPECT_GE(raw.size(), 400u);
  const auto [low, high] =
      std::minmax_element(raw.begin(), raw.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  const double middle = raw[0].y;
  EXPECT_GT(high->y - middle, 100);
  EXPECT_GT(middle - low->y, 80);
  for (const Point& point : line(svg, "mean")) EXPECT_NEAR(point.y, middle, 1);
}

TEST_F(Curves, ThickLineIsTheRunningMean) {
  const std::string svg = draw(noisy(5000));
  EXPECT_NE(svg.find("mean of 100 values"), std::string::npos);
  const std::vector<Point> mean = line(svg, "mean"), raw = line(svg, "raw");
  ASSERT_EQ(mean.size(), 500u);
  const double half = (raw[0].y + raw[1].y) / 2;
  for (const Point& point : mean) EXPECT_NEAR(point.y, half, 3);
}

TEST_F(Curves, NonFiniteValuesBreakTheLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  std::size_t pieces = 0;
  EXPECT_EQ(line(draw({1, 2, nan, 3, 4, inf, -inf, 5}), "mean", &pieces).size(), 5u);
  EXPECT_EQ(pieces, 3u);

  std::vector<double> values = noisy(20'000);
  for (std::size_t i = 5000; i < 10'000; ++i) values[i] = nan;
  const std::string svg = draw(values);
  line(svg, "raw", &pieces);
  EXPECT_EQ(pieces, 2u);
  line(svg, "mean", &pieces);
  EXPECT_EQ(pieces, 2u);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] = nan;
  draw(values);
}

TEST_F(Curves, DrawsDegenerateLines) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(line(draw({0.25}), "mean").size(), 1u);
  EXPECT_EQ(line(draw({0, 0, 0}), "mean").size(), 3u);
  EXPECT_EQ(line(draw({5, 5, 5}), "mean").size(), 3u);
  EXPECT_EQ(line(draw({1e16, 1e16 + 2}), "mean").size(), 2u);
  EXPECT_EQ(line(draw({1e199, -1e199}), "mean").size(), 2u);
  EXPECT_EQ(line(draw({1e300, 1}), "mean").size(), 1u);
  EXPECT_EQ(line(draw({5e-324, 0}), "mean").size(), 2u);
  EXPECT_NE(draw({nan, nan}).find("no finite values"), std::string::npos);
  EXPECT_NE(draw(History(), {"time"}).find("no finite values"), std::string::npos);
}

TEST_F(Curves, EscapesNames) {
  const std::string svg = draw(history_of("a<b>&\"\x01", {1, 2}), {"a<b>&\"\x01"});
  EXPECT_NE(svg.find(">a&lt;b&gt;&amp;&quot; </text>"), std::string::npos);
}

TEST_F(Curves, ReportsErrors) {
  const History history = history_of("loss", {1});
  expect_error(ErrorCode::not_found, {"'los'", "'loss'"}, [&] { draw(history, {"los"}); });
  expect_invalid({"no keys"}, [&] { draw(history, {}); });
  expect_error(ErrorCode::io, {"full"}, [&] { write_curves(history, {"loss"}, "/dev/full/a.svg"); });
}

TEST_F(Curves, CreatesTheDirectory) {
  write_curves(history_of("loss", {1}), {"loss"}, dir_ / "new/a.svg");
  EXPECT_NE(test::read_text(dir_ / "new/a.svg"), "");
}

}  // namespace
}  // namespace giro
