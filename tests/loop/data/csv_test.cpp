#include <giro/loop/data/csv.h>

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "loop/data/csv_table.h"
#include "tests/support/damaged_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutator.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using data::csv;
using test::expect_error;

class CsvTest : public testing::Test {
 protected:
  using Floats = std::vector<float>;
  static constexpr ErrorCode kCorrupt = ErrorCode::corrupt_data, kInvalid = ErrorCode::invalid_argument;

  std::string file(const std::string& name, const std::string& content) { return folder_.write(name, content); }
  Floats column(const std::string& content, const std::string& name = "a", char delimiter = ',') {
    return values(csv(file("t.csv", content), {.features = {{"x", {name}}}, .delimiter = delimiter}), "x");
  }
  static Floats values(const Dataset& dataset, const std::string& name) {
    for (const auto& [feature, tensor] : dataset.rows()) {
      if (feature == name) return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
    }
    return {};
  }
  void refuses(const std::string& content, std::initializer_list<std::string> parts, ErrorCode code = kCorrupt) {
    const std::string path = file("bad.csv", content);
    const auto read = [&] { csv(path, {.features = {{"x", {"a", "b"}}}}); };
    expect_error(code, parts, read);
    expect_error(code, {path}, read);
  }

  test::TemporaryDirectory folder_;
};

TEST_F(CsvTest, FeaturesAreColumnsInTheirOrder) {
  const std::string path = file("t.csv", "id,a,\"b, c\",y\nfirst,1,2,3\nsecond,4,5,6\n");
  const Dataset dataset = csv(path, {.features = {{"x", {"b, c", "a"}}, {"y", {"y"}}, {"both", {"a", "y"}}}});
  EXPECT_EQ(dataset.num_rows(), 2);
  EXPECT_EQ(dataset.rows()[0].second.shape(), Shape({2, 2}));
  EXPECT_EQ(dataset.rows()[1].second.shape(), Shape({2, 1}));
  EXPECT_EQ(values(dataset, "x"), (Floats{2, 1, 5, 4}));
  EXPECT_EQ(values(dataset, "y"), (Floats{3, 6}));
  EXPECT_EQ(values(dataset, "both"), (Floats{1, 3, 4, 6}));
}

TEST_F(CsvTest, NumbersAsTheyAreWritten) {
  EXPECT_EQ(column("a\n1\n-2.5\n+3\n.5\n1e3\n 7\t\n\"8\"\n1e-50\n-1e-320\n0.1\n16777217\n3.4028235e38\n"),
            (Floats{1, -2.5, 3, .5, 1'000, 7, 8, 0, 0, 0.1F, 16'777'216, 3.4028235e38F}));
}

// As read by strtod, and so by pandas. A number that is too large is refused.
TEST_F(CsvTest, UnderflowBecomesZero) {
  const std::string zeros(400, '0'), digits = "1" + zeros;
  for (const std::string& tiny :
       {std::string("1e-400"), std::string("12345.6e-99999"), std::string("1E-99999999999999999999"),
        "0." + zeros + "1", "0." + zeros + "1e+50", digits + "e-900", "1e-1" + zeros}) {
    const Floats read = column("a\n" + tiny + "\n-" + tiny + "\n");
    EXPECT_EQ(read, (Floats{0, 0})) << tiny;
    EXPECT_EQ((std::vector{std::signbit(read[0]), std::signbit(read[1])}), (std::vector{false, true})) << tiny;
  }
  for (const std::string& huge :
       {std::string("1e400"), digits, digits + "e-50", "0." + zeros + "1e+900", "1e+1" + zeros}) {
    refuses("a,b\n1,-" + huge + "\n", {"line 2", "\"b\" is "});
  }
}

TEST_F(CsvTest, AcceptsAnyLineEnding) {
  for (const char* content :
       {"a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r\n",
        "\xef\xbb\xbf"
        "a,b\r\n1,2\r\n3,4",
        "\"a\",\"b\"\r\n\"1\",\"2\"\r\n\"3\",\"4\"", "b,a\nx,1\n,3\n", "b,a\n\"x\ny\"\"\r\n,z\",1\n\"\",3\n"}) {
    EXPECT_EQ(column(content), (Floats{1, 3})) << content;
  }
  EXPECT_EQ(column("a;b\n1;x,y\n", "a", ';'), Floats{1});
  EXPECT_EQ(column("a\tb\n1\t2\n", "b", '\t'), Floats{2});
  EXPECT_EQ(column("a,b\n1,\n2,", "a"), (Floats{1, 2}));
}

TEST_F(CsvTest, JoinsFilesWithEqualHeaders) {
  const std::string a = file("a.csv", "a,b\n1,2\n"), b = file("b.csv", "a,b\r\n3,4"), c = file("c.csv", "b,a\n1,2\n");
  EXPECT_EQ(values(csv({a, b, a}, {.features = {{"x", {"a"}}}}), "x"), (Floats{1, 3, 1}));
  expect_error(kCorrupt, {c, "line 1", a}, [&] { csv({a, c}, {.features = {{"x", {"a"}}}}); });
}

TEST_F(CsvTest, ErrorsNameTheLineAndTheColumn) {
  refuses("a,b\n1,2\n3,north\n", {"line 3", "column \"b\" is \"north\"", "finite number"});
  refuses("a,b\n1,2\n,4\n", {"line 3", "column \"a\" is empty"});
  refuses("a,b\n1,2\n3,\n", {"line 3", "column \"b\" is empty"});
  for (const std::string none :
       {"nan", "NaN", "inf", "-inf", "1e39", "-1e400", "0x10", "1.5abc", "1 2", "--1", "+-1", "1,5"}) {
    refuses("a,b\n1,\"" + none + "\"\n", {"line 2", "\"b\" is \"" + none + "\""});
  }
  refuses("a,b\n1,2\n3\n", {"line 3", "has 1 field, expected 2"});
  refuses("a,b\n1,2,3\n", {"line 2", "has 3 fields, expected 2"});
  refuses("a,b\n1,2\n\n3,4\n", {"line 3", "empty"});
  refuses("a,b\n\"1\",\"2\"\n3,4\"\n", {"line 3", "quote within a field"});
  refuses("a,b,c\n1,2,\"two\nlines\"\n1,\"2\"x,3\n", {"line 4", "after the end of a quoted field"});
  refuses("a,b\n1,2\n3,\"4\n5,6\n", {"line 3", "an unterminated quoted field"});
  refuses("a,b,a\n1,2,3\n", {"line 1", "more than one column \"a\""});
  refuses("a,b\n", {"no rows"});
  refuses("", {"empty", "column names"});
  const std::string houses = file("houses.csv", "rooms,price\n1,2\n");
  expect_error(ErrorCode::not_found, {houses, "no column \"prise\"", "'price'"}, [&] {
    csv(houses, {.features = {{"x", {"prise"}}}});
  });
  expect_error(ErrorCode::not_found, {"nowhere.csv"}, [&] {
    csv(folder_ / "nowhere.csv", {.features = {{"x", {"a"}}}});
  });
}

TEST_F(CsvTest, RejectsInvalidOptions) {
  const std::string path = file("t.csv", "a,b\n1,2\n");
  expect_error(kInvalid, {"no path"}, [] { csv({}, {.features = {{"x", {"a"}}}}); });
  expect_error(kInvalid, {"no features"}, [&] { csv(path, {.features = {}}); });
  expect_error(kInvalid, {"'x' has no columns"}, [&] { csv(path, {.features = {{"x", {}}}}); });
  for (const char delimiter : {'"', '\n', '\r'}) {
    expect_error(kInvalid, {"delimiter"}, [&] { csv(path, {.features = {{"x", {"a"}}}, .delimiter = delimiter}); });
  }
}

TEST_F(CsvTest, DamagedFilesAreRejectedOrReadSafely) {
  const std::vector<std::string> files{"a,b\n1,2\n3,4\n", "a,b,c\r\n1,2,\"x\"\"\ny\"\r\n", "b,a\n1e5,\"-2\"\n"};
  test::Mutator mutated(6);
  test::expect_damage_is_found([&] { return mutated(files[mutated.below(files.size())], files); },
                               [](test::OneFile& file) {
                                 try {
                                   data::read_csv("file", {{"x", {"a"}}}, ',', file);
                                 } catch (const Error& error) {  // a damaged header: the named column is missing
                                   if (error.code() != ErrorCode::not_found) throw;
                                   throw Error(ErrorCode::unsupported, error.what());
                                 }
                               });
}

}  // namespace
}  // namespace giro
