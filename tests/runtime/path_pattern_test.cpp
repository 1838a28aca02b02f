#include "runtime/internal/path_pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace giro {
namespace {

// The parts of a path that a pattern's wildcards match, each in brackets; "no" if the pattern does not match.
std::string matched(const std::string& pattern, const std::string& path) {
  const auto parts = PathPattern(pattern).match(path);
  if (!parts) return "no";
  std::string text;
  for (const std::string_view part : *parts) text += "[" + std::string(part) + "]";
  return text;
}

TEST(PathPatternTest, PrefixMatchesEverythingBelow) {
  EXPECT_EQ(matched("params/a", "params/a"), "[]");
  EXPECT_EQ(matched("params", "params/a/b"), "[/a/b]");
  EXPECT_EQ(matched("params/", "params/a"), "[a]");
  EXPECT_EQ(matched("model", "model.a.b"), "[.a.b]");
  EXPECT_EQ(matched("model.", "model.a"), "[a]");
  EXPECT_EQ(matched("", "a/b"), "[a/b]");
  EXPECT_EQ(matched("", ""), "[]");
  EXPECT_EQ(matched("params/a", "params/ab"), "no");
  EXPECT_EQ(matched("params/a", "params"), "no");
  EXPECT_EQ(matched("a", "params/a"), "no");
}

TEST(PathPatternTest, StarStaysWithinAPart) {
  EXPECT_EQ(matched("params/*", "params/a"), "[a]");
  EXPECT_EQ(matched("params/*", "params/"), "[]");
  EXPECT_EQ(matched("params/*", "params/a/b"), "no");
  EXPECT_EQ(matched("*.weight", "dense.weight"), "[dense]");
  EXPECT_EQ(matched("*.weight", "a.dense.weight"), "no");
  EXPECT_EQ(matched("layers.*.*.weight", "layers.10.attention.weight"), "[10][attention]");
  EXPECT_EQ(matched("params/dense*/kernel", "params/dense12/kernel"), "[12]");
  EXPECT_EQ(matched("params/dense*/kernel", "params/dense12/bias"), "no");
  EXPECT_EQ(matched("*a*a", "aaaa"), "[aa][]");
  EXPECT_EQ(matched("*", ""), "[]");
}

TEST(PathPatternTest, TwoStarsMatchAnything) {
  EXPECT_EQ(matched("**", "params/a.b"), "[params/a.b]");
  EXPECT_EQ(matched("**/kernel", "params/a/kernel"), "[params/a]");
  EXPECT_EQ(matched("**/kernel", "params/a/bias"), "no");
  EXPECT_EQ(matched("params/**/b/*", "params/a/b/c/b/d"), "[a/b/c][d]");
  EXPECT_EQ(matched("**.*", "a.b.c"), "[a.b][c]");
  EXPECT_EQ(matched("*.**", "a.b.c"), "[a][b.c]");
}

TEST(PathPatternTest, FillsInMatches) {
  const auto renamed = [](const std::string& from, const std::string& to, const std::string& path) {
    return PathPattern(to).fill(*PathPattern(from).match(path));
  };
  EXPECT_EQ(renamed("model.layers.*.weight", "params/layer*/kernel", "model.layers.3.weight"), "params/layer3/kernel");
  EXPECT_EQ(renamed("encoder", "params/encoder", "encoder/a"), "params/encoder/a");
  EXPECT_EQ(renamed("model.", "", "model.a"), "a");
  EXPECT_EQ(renamed("", "params/", "a/b"), "params/a/b");
  EXPECT_EQ(renamed("*.**", "**/*", "a.b.c"), "a/b.c");
  EXPECT_EQ(PathPattern("a*b**c*").wildcards(), 3u);
  EXPECT_EQ(PathPattern("abc").wildcards(), 0u);
}

TEST(PathPatternTest, ManyWildcardsAndALongPathAreFast) {
  const std::string path(20'000, 'a');
  EXPECT_EQ(matched("**a*a**a*a**b", path), "no");
  EXPECT_EQ(matched("**a*a**", path), "[" + std::string(19'998, 'a') + "][][]");
}

}  // namespace
}  // namespace giro
