#include "runtime/path_pattern.h"

#include <gtest/gtest.h>

#include <map>
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

// By path, what the pattern's wildcards match.
void expect_matches(const std::string& pattern, const std::map<std::string, std::string>& expected) {
  for (const auto& [path, parts] : expected) EXPECT_EQ(matched(pattern, path), parts) << pattern << " in " << path;
}

TEST(PathPatternTest, PrefixMatchesEverythingBelow) {
  expect_matches("params/a", {{"params/a", "[]"}, {"params/ab", "no"}, {"params", "no"}});
  expect_matches("params", {{"params/a/b", "[/a/b]"}});
  expect_matches("params/", {{"params/a", "[a]"}});
  expect_matches("model", {{"model.a.b", "[.a.b]"}});
  expect_matches("model.", {{"model.a", "[a]"}});
  expect_matches("", {{"a/b", "[a/b]"}, {"", "[]"}});
  expect_matches("a", {{"params/a", "no"}});
}

TEST(PathPatternTest, StarStaysWithinAPart) {
  expect_matches("params/*", {{"params/a", "[a]"}, {"params/", "[]"}, {"params/a/b", "no"}});
  expect_matches("*.weight", {{"dense.weight", "[dense]"}, {"a.dense.weight", "no"}});
  expect_matches("layers.*.*.weight", {{"layers.10.attention.weight", "[10][attention]"}});
  expect_matches("params/dense*/kernel", {{"params/dense12/kernel", "[12]"}, {"params/dense12/bias", "no"}});
  expect_matches("*a*a", {{"aaaa", "[aa][]"}});
  expect_matches("*", {{"", "[]"}});
}

TEST(PathPatternTest, TwoStarsMatchAnything) {
  expect_matches("**", {{"params/a.b", "[params/a.b]"}});
  expect_matches("**/kernel", {{"params/a/kernel", "[params/a]"}, {"params/a/bias", "no"}});
  expect_matches("params/**/b/*", {{"params/a/b/c/b/d", "[a/b/c][d]"}});
  expect_matches("**.*", {{"a.b.c", "[a.b][c]"}});
  expect_matches("*.**", {{"a.b.c", "[a][b.c]"}});
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
