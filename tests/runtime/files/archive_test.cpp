#include <giro/runtime/files/archive.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

struct Inner {
  std::string text;
  std::optional<double> number;
  void persist(Archive& archive) { archive("text", text)("number", number); }
};

struct Memory {
  bool yes = false;
  int small = 0;
  std::int64_t low = 0;
  std::uint64_t high = 0;
  std::vector<double> numbers;
  std::vector<Inner> inner;
  std::optional<std::int64_t> none = 7;
  void persist(Archive& archive) {
    archive("yes", yes)("small", small)("low", low)("high", high)("numbers", numbers)("inner", inner)("none", none);
  }
};

TEST(ArchiveTest, ComparesWhatMustBeTheSame) {
  const auto persist = [](Archive& archive, std::int64_t size, bool shuffled, const std::string& name) {
    archive.within("run", [&] {
      archive.same({"the data", "use the same"}, "size", size);
      archive.same({"the data", "use the same"}, "shuffled", shuffled);
      archive.same({"the data", "use the same"}, "name", name);
    });
  };
  Archive written;
  persist(written, -4, true, "a");
  EXPECT_EQ(written.values().size(), 1u);
  const auto read = [&](std::int64_t size, bool shuffled, const std::string& name) {
    Archive archive = Archive::read(written.text());
    persist(archive, size, shuffled, name);
    EXPECT_TRUE(archive.report().empty());
  };
  read(-4, true, "a");
  const std::string differs = "the data differs from that of the saved run: ";
  test::expect_invalid({differs + "size: found 3, expected -4; use the same"}, [&] { read(3, true, "a"); });
  test::expect_invalid({differs + "shuffled: found false, expected true; "}, [&] { read(-4, false, "a"); });
  test::expect_invalid({differs + "name: found b, expected a; "}, [&] { read(-4, true, "b"); });
  // A run that was saved without it.
  Archive before = Archive::read("{}");
  before.same({"the data", ""}, "size", 5);
  test::expect_invalid({"size: found 5, expected 1"}, [&] { before.same({"the data", ""}, "size", 5, 1); });
}

TEST(ArchiveTest, ValuesAreText) {
  Archive archive;
  std::int64_t number = 3;
  std::string text = "a\"b";
  archive("number", number)("text", text);
  using Values = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(archive.values(), (Values{{"number", "3"}, {"text", "a\"b"}}));
}

TEST(ArchiveTest, RoundTripsBitwise) {
  const double infinity = std::numeric_limits<double>::infinity();
  Memory memory{true,
                -5,
                std::numeric_limits<std::int64_t>::min(),
                std::numeric_limits<std::uint64_t>::max(),
                {0.1, -0.0, 5e-324, infinity, -infinity, std::nan(""), 5},
                {{"a \"b\"\n", 1.5}, {"", std::nullopt}},
                std::nullopt};
  Archive written;
  EXPECT_FALSE(written.is_reading());
  memory.persist(written);

  Archive read = Archive::read(written.text());
  Memory back;
  back.persist(read);
  EXPECT_TRUE(read.is_reading());
  EXPECT_EQ(back.yes, memory.yes);
  EXPECT_EQ(back.small, memory.small);
  EXPECT_EQ(back.low, memory.low);
  EXPECT_EQ(back.high, memory.high);
  EXPECT_EQ(back.none, std::nullopt);
  ASSERT_EQ(back.numbers.size(), memory.numbers.size());
  for (std::size_t i = 0; i < back.numbers.size(); ++i) {
    if (std::isnan(memory.numbers[i])) {
      EXPECT_TRUE(std::isnan(back.numbers[i]));
    } else {
      EXPECT_EQ(back.numbers[i], memory.numbers[i]);
      EXPECT_EQ(std::signbit(back.numbers[i]), std::signbit(memory.numbers[i]));
    }
  }
  ASSERT_EQ(back.inner.size(), 2U);
  EXPECT_EQ(back.inner[0].text, "a \"b\"\n");
  EXPECT_EQ(back.inner[0].number, 1.5);
  EXPECT_EQ(back.inner[1].number, std::nullopt);
  EXPECT_TRUE(read.report().empty());
}

TEST(ArchiveTest, ReportsMismatchesAndReadsTheRest) {
  std::int64_t a = 1, b = 2, c = 3;
  Archive written;
  written("a", a);
  written.within("old", [&] { written("b", b); });
  Archive read = Archive::read(written.text());
  a = b = 0;
  read("a", a);
  read.within("new", [&] { FAIL() << "there is no such name"; });
  read("c", c);
  EXPECT_EQ(a, 1);
  EXPECT_EQ(c, 3);
  EXPECT_EQ(read.report(), (std::vector<std::string>{"'new' was not saved", "'c' was not saved",
                                                     "'old' was saved, but nothing here reads it"}));
}

TEST(ArchiveTest, ShiftsOnlyDates) {
  double date = 100, number = 100;
  std::optional<double> other = 200;
  Archive written;
  written.date("date", date).date("other", other)("number", number);
  Archive read = Archive::read(written.text());
  read.shift_dates(5);
  read.date("date", date).date("other", other)("number", number);
  EXPECT_EQ(date, 105);
  EXPECT_EQ(other, 205);
  EXPECT_EQ(number, 100);
}

TEST(ArchiveTest, KeepsArraysByTheirPaths) {
  const auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  std::vector<Leaf> leaves{{"params/w", Tensor(values->data(), DType::f32, {2}, Device::cpu())}};
  std::shared_ptr<const void> owner = values;
  Archive written;
  written.within("best", [&] { written.arrays("state", leaves, owner); });
  ASSERT_EQ(written.arrays().size(), 1U);
  EXPECT_EQ(written.arrays()[0].path, "best/state/params/w");

  Archive read = Archive::read(written.text(), written.arrays(), written.owner());
  std::vector<Leaf> back;
  std::shared_ptr<const void> kept;
  read.within("best", [&] { read.arrays("state", back, kept); });
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].path, "params/w");
  EXPECT_EQ(back[0].value.raw(), values->data());
  EXPECT_TRUE(read.report().empty());
  EXPECT_EQ(Archive::read(written.text(), written.arrays()).report().size(), 2U);
}

TEST(ArchiveTest, WritesOnlyNewLines) {
  const auto persist = [](Archive& archive, std::string& all) {
    archive.within("run", [&] {
      archive.lines(
          "history", 3, [](std::size_t first) { return std::string("a\nb\nc\n").substr(2 * first); },
          [&](std::string_view text) { all = text; });
    });
  };
  std::string text;
  Archive first, second({{"run/history", 2}}), longer({{"run/history", 4}});
  persist(first, text);
  persist(second, text);
  persist(longer, text);
  EXPECT_EQ(first.lines().at("run/history").text, "a\nb\nc\n");
  EXPECT_EQ(second.lines().at("run/history").text, "c\n");
  EXPECT_EQ(second.lines().at("run/history").first, 2U);
  EXPECT_EQ(longer.lines().at("run/history").first, 0U);  // the four lines kept before belong to another history

  Archive read = Archive::read(second.text(), {}, nullptr, {{"run/history", {0, 3, "a\nb\nc\n"}}});
  persist(read, text);
  EXPECT_EQ(text, "a\nb\nc\n");
  Archive shorter = Archive::read(second.text(), {}, nullptr, {{"run/history", {0, 2, "a\nb\n"}}});
  expect_error(ErrorCode::corrupt_data, {"'run/history' has 2 lines, expected 3"}, [&] { persist(shorter, text); });
}

TEST(ArchiveTest, RejectsOtherKinds) {
  const auto read = [](const std::string& text, auto value) {
    Archive archive = Archive::read(text);
    archive.within("a", [&] { archive("b", value); });
  };
  expect_error(ErrorCode::corrupt_data, {"'a/b' is \"x\", expected a 64-bit integer"},
               [&] { read(R"({"a":{"b":"x"}})", std::int64_t{0}); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is 18446744073709551615, expected a 64-bit integer"},
               [&] { read(R"({"a":{"b":18446744073709551615}})", std::int64_t{0}); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is 5000000000, expected a smaller integer"},
               [&] { read(R"({"a":{"b":5000000000}})", 0); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is -1, expected an integer of at least 0"},
               [&] { read(R"({"a":{"b":-1}})", std::uint64_t{0}); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is 1.5, expected a 64-bit integer"},
               [&] { read(R"({"a":{"b":1.5}})", std::int64_t{0}); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is 1, expected true or false"},
               [&] { read(R"({"a":{"b":1}})", false); });
  expect_error(ErrorCode::corrupt_data, {"'a/b' is {}, expected a list"},
               [&] { read(R"({"a":{"b":{}}})", std::vector<double>()); });
  expect_error(ErrorCode::corrupt_data, {"'a' is [], expected an object"}, [&] { read(R"({"a":[]})", 0.0); });
  expect_error(ErrorCode::corrupt_data, {"it is not valid JSON at byte 2"}, [&] { read("{", 0); });
  expect_error(ErrorCode::corrupt_data, {"a number that a double cannot hold"}, [&] { read("{\"a\":1e999}", 0); });
  expect_error(ErrorCode::corrupt_data, {"not an object"}, [&] { read("[]", 0); });
  expect_error(ErrorCode::corrupt_data, {"nested more than"},
               [&] { read(R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0); });
}

TEST(ArchiveTest, NameIsWrittenOnce) {
  Archive archive;
  int value = 0;
  archive("a", value);
  expect_error(ErrorCode::invalid_argument, {"'a' is written twice"}, [&] { archive("a", value); });
}

}  // namespace
}  // namespace giro
