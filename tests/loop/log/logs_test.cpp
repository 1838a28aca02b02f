#include <giro/loop/log/logs.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/log/history.h>

#include "tests/support/expect_error.h"
#include "tests/support/heap_bytes.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

TEST(Logs, AddersNameTheirCollections) {
  const Logs l = logs().add_loss("a", 1).add_metric("b", 2).add_stateful_metric("c", 3).add_entry("mine", "d", 4);
  EXPECT_EQ(l.entry_value("losses.a"), 1);
  EXPECT_EQ(l.entry_value("metrics.b"), 2);
  EXPECT_EQ(l.entry_value("stateful_metrics.c"), 3);
  EXPECT_EQ(l.entry_value("mine.d"), 4);
  EXPECT_EQ(l.entry_value("c"), 3);
  EXPECT_EQ(l.entries().size(), 4u);
}

// Reference test 8.
TEST(Logs, Reference8AddersAndMergeKeepCollections) {
  const auto expect_collections = [](const Logs& l) {
    ASSERT_EQ(l.entries().size(), 3u);
    const std::vector<std::pair<std::string, double>> expected{
        {"losses.a", 1}, {"metrics.b", 2}, {"stateful_metrics.c", 3}};
    for (std::size_t i = 0; i < 3; ++i) {
      const Logs::Entry entry = l.entries()[i];
      EXPECT_EQ(entry.collection + "." + entry.name, expected[i].first);
      EXPECT_EQ(entry.value.value(), expected[i].second);
    }
  };
  Logs added;
  added.add_loss("a", 1);
  added.add_metric("b", 2);
  added.add_stateful_metric("c", 3);
  expect_collections(added);

  Logs merged;
  merged.merge(logs().add_loss("a", 1));
  merged.merge(logs().add_metric("b", 20));
  merged.merge(logs().add_metric("b", 2).add_stateful_metric("c", 3));
  expect_collections(merged);
}

TEST(Logs, PluralAdders) {
  const Logs l = logs()
                     .add_metrics({{"a", 1.0}, {"b", 2}})
                     .add_stateful_metrics({{"c", 3.0}})
                     .add_output("d", 4)
                     .add_outputs({{"e", 5.0}, {"d", 6.0}})
                     .add_metrics({});
  EXPECT_EQ(l.entry_value("metrics.a"), 1);
  EXPECT_EQ(l.entry_value("metrics.b"), 2);
  EXPECT_EQ(l.entry_value("stateful_metrics.c"), 3);
  EXPECT_EQ(l.entry_value("outputs.d"), 6);
  EXPECT_EQ(l.entry_value("outputs.e"), 5);
  EXPECT_EQ(l.entries().size(), 5u);
}

TEST(Logs, AddLosses) {
  const Logs l = logs().add_losses({{"a", 1.0}, {"b", 2}}).add_losses({{"c", 3}}, /*add_metric=*/true);
  EXPECT_EQ(l.entry_value("losses.a"), 1);
  EXPECT_EQ(l.entry_value("losses.b"), 2);
  EXPECT_EQ(l.entry_value("losses.c"), 3);
  EXPECT_EQ(l.entry_value("metrics.c"), 3);
  EXPECT_EQ(l.entries().size(), 4u);
}

TEST(Logs, UpdatesMergesAndReturnsItself) {
  Logs l = logs().add_metric("a", 1);
  EXPECT_EQ(&l.updates(logs().add_metric("b", 2)).updates(logs().add_metric("a", 3)), &l);
  EXPECT_EQ(l.entry_value("a"), 3);
  EXPECT_EQ(l.entry_value("b"), 2);
}

TEST(Logs, CopyIsIndependent) {
  const Logs original = logs().add_metric("a", 1);
  Logs copy = original;
  copy.add_metric("b", 2).add_metric("a", 3);
  EXPECT_EQ(original.entries().size(), 1u);
  EXPECT_EQ(original.entry_value("a"), 1);
  EXPECT_EQ(copy.entries().size(), 2u);
  copy.values()[1] = LogValue(5);
  EXPECT_EQ(copy.entry_value("b"), 5);
}

TEST(Logs, OneOutput) {
  const Logs l =
      logs().add_output("logits", HostArray(std::vector<float>{1, 2})).add_output("count", 3).add_metric("loss", 4);
  EXPECT_EQ(l.output("logits").tensor().data<float>()[1], 2);
  EXPECT_EQ(l.output("count").tensor().data<double>()[0], 3);
  test::expect_error(ErrorCode::not_found, {"no output 'logit'", "logits"}, [&] { (void)l.output("logit"); });
  test::expect_error(ErrorCode::not_found, {"no output 'loss'"}, [&] { (void)l.output("loss"); });
  test::expect_error(ErrorCode::not_found, {"none is logged"}, [] { (void)logs().output("loss"); });
}

TEST(Logs, EntriesAreARange) {
  const Logs l = logs().add_metric("a", 1).add_loss("b", 2);
  static_assert(std::forward_iterator<Logs::Entries::Iterator>);
  std::string seen;
  for (const auto& [collection, name, value] : l.entries()) {
    seen += collection + "." + name + "=" + std::to_string(static_cast<int>(value.value())) + " ";
  }
  EXPECT_EQ(seen, "metrics.a=1 losses.b=2 ");
  EXPECT_EQ(Logs().values().size(), 0u);
}

TEST(Logs, FromASchema) {
  const Logs like = logs().add_metric("a", 1).add_loss("b", 2);
  const Logs l(like.schema(), {3, 4});
  EXPECT_EQ(l.entry_value("metrics.a"), 3);
  EXPECT_EQ(l.entry_value("losses.b"), 4);
  expect_invalid({"2 names", "1 values"}, [&] { Logs(like.schema(), {3}); });
}

TEST(LogSchema, ComparesNamesAndTheirOrder) {
  const LogSchema ab = logs().add_metric("a", 1).add_loss("b", 2).schema();
  Logs merged;
  merged.merge(logs().add_metric("a", 5));
  merged.merge(logs().add_loss("b", 6));
  EXPECT_EQ(merged.schema(), ab);
  EXPECT_EQ(Logs(merged).schema(), ab);
  EXPECT_EQ(logs().schema(), LogSchema());
  EXPECT_NE(logs().add_loss("b", 2).add_metric("a", 1).schema(), ab);
  EXPECT_NE(logs().add_metric("a", 1).add_metric("b", 2).schema(), ab);
  EXPECT_NE(logs().add_metric("a", 1).schema(), ab);
  EXPECT_NE(logs().add_metric("a", 1).add_loss("b", 2).add_loss("c", 3).schema(), ab);
  EXPECT_EQ(merged.add_metric("a", 7).schema(), ab);
  // Moved-from logs have no entries.
  const Logs moved = std::move(merged);
  EXPECT_EQ(moved.schema(), ab);
  EXPECT_EQ(merged.schema(), LogSchema());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(merged.add_metric("c", 1).entries().size(), 1u);
}

std::string names_of(const LogSchema& schema) {
  std::string names;
  for (std::size_t i = 0; i < schema.size(); ++i) names += schema[i].name + " ";
  return names;
}

// Random words with common prefixes; some of their schemas are still alive. Schemas are equal if and only if their
// names are.
TEST(LogSchema, BranchesAreFoundAgain) {
  std::mt19937 random(1);
  std::vector<std::pair<std::string, LogSchema>> alive(64);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> letters{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
    const std::size_t fixed = random() % 11;  // this many keep their order
    std::shuffle(letters.begin() + static_cast<std::ptrdiff_t>(fixed), letters.end(), random);
    letters.resize(random() % 12);
    Logs l;
    std::string expected;
    for (const std::string& letter : letters) {
      l.add_metric(letter, round);
      expected += letter + " ";
    }
    ASSERT_EQ(names_of(l.schema()), expected);
    for (std::size_t i = 0; i < letters.size(); ++i) ASSERT_EQ(l.schema().find("metrics", letters[i]), i);
    ASSERT_EQ(l.schema().find("metrics", "z"), std::nullopt);
    for (const auto& [names, schema] : alive) ASSERT_EQ(schema == l.schema(), names == expected) << names << expected;
    alive[random() % alive.size()] = {expected, l.schema()};
  }
}

TEST(LogSchema, UnusedNamesAreFreed) {
  std::mt19937 random(1);
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("an entry with a long name " + std::to_string(i));
  History history;
  std::size_t before = 0;
  constexpr int kRounds = 3'000;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 3) before = test::heap_bytes();
    std::shuffle(names.begin(), names.end(), random);
    Logs l;
    for (const std::string& name : names) l.add_metric(name, round);
    history.commit({.steps = round}, l);
    logs().add_metric("an entry that is logged once " + std::to_string(round), round);
  }
  // 20 numbers per record, and nothing for the order of its entries.
  EXPECT_LT(test::heap_bytes() - before, 2u * kRounds * 20 * sizeof(double));
  EXPECT_EQ(history.column(names[3]).size(), static_cast<std::size_t>(kRounds));
}

// The work is proportional to the entries: ten times as many must not take a hundred times as long.
TEST(LogSchema, ManyEntries) {
  const auto seconds = [](int entries) {
    std::vector<std::string> names;
    for (int i = 0; i < entries; ++i) names.push_back("entry" + std::to_string(i));
    double least = 1e9;
    for (int round = 0; round < 5; ++round) {
      const std::clock_t begin = std::clock();  // CPU time: the machine may be busy
      Logs l, again;
      for (const std::string& name : names) l.add_metric(name, 1);
      for (const std::string& name : names) l.add_metric(name, 2);
      again.add_metric("first", 0).merge(l);
      History history;
      history.commit({}, l);
      history.commit({}, again);
      EXPECT_EQ(history.latest().values().size(), names.size() + 1);
      EXPECT_EQ(aggregate(history, "sum").values().size(), names.size() + 1);
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(4'000), 40 * seconds(400));
}

TEST(LogSchema, FindAndPaths) {
  const LogSchema schema = logs().add_metric("a", 1).add_loss("a", 2).add_entry("m", "x.y", 3).schema();
  EXPECT_EQ(schema.size(), 3u);
  EXPECT_EQ(schema.find("losses", "a"), 1u);
  EXPECT_EQ(schema.find("outputs", "a"), std::nullopt);
  EXPECT_EQ(schema[0].path(), "metrics.a");
  EXPECT_TRUE(schema[0].has_path("metrics.a"));
  for (const char* other : {"metrics.b", "metric.a", "metrics_a", "metrics.aa", "a", ""}) {
    EXPECT_FALSE(schema[0].has_path(other)) << other;
  }
  EXPECT_TRUE(schema[2].has_path("m.x.y"));
}

TEST(LogSchema, ThreadsShareIt) {
  std::vector<LogSchema> made(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < made.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Logs l, other;
        for (int i = 0; i < 200; ++i) {
          l.add_entry("threads", std::to_string(i), i);
          if (i % 20 == round % 20) other = l;
          other.add_entry("others", std::to_string(i * static_cast<int>(t + 1)), i);
        }
        made[t] = l.schema();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(made[0].size(), 200u);
  for (const auto& schema : made) EXPECT_EQ(schema, made[0]);
}

TEST(Logs, LossCanAlsoBeAMetric) {
  const Logs l = logs().add_loss("loss", 1, /*add_metric=*/true);
  EXPECT_EQ(l.entry_value("losses.loss"), 1);
  EXPECT_EQ(l.entry_value("metrics.loss"), 1);
}

TEST(Logs, LastWriteWinsInPlace) {
  const Logs l = logs().add_metric("a", 1).add_metric("b", 2).add_metric("a", 3);
  ASSERT_EQ(l.entries().size(), 2u);
  EXPECT_EQ(l.entries()[0].name, "a");
  EXPECT_EQ(l.entry_value("a"), 3);
}

TEST(Logs, LastRuleWins) {
  const Logs rate = logs().add_metric("a", 1).add_entry("metrics", "a", 2, LogSchema::Rule::last);
  EXPECT_EQ(rate.schema().rule(0), LogSchema::Rule::last);
  Logs merged = logs().add_metric("a", 1).add_metric("b", 1);
  merged.merge(rate);
  ASSERT_EQ(merged.entries().size(), 2u);
  EXPECT_EQ(merged.schema().rule(0), LogSchema::Rule::last);
  EXPECT_EQ(merged.schema().rule(1), LogSchema::Rule::mean);
}

TEST(Logs, Merge) {
  Logs l = logs().add_loss("a", 1).add_metric("b", 2);
  l.merge(logs().add_metric("b", 20).add_metric("a", 5).add_stateful_metric("c", 3));
  EXPECT_EQ(l.entry_value("losses.a"), 1);
  EXPECT_EQ(l.entry_value("metrics.a"), 5);
  EXPECT_EQ(l.entry_value("b"), 20);
  EXPECT_EQ(l.entry_value("c"), 3);
  EXPECT_EQ(l.entries().size(), 4u);

  Logs empty;
  empty.merge(l);
  EXPECT_EQ(empty.entries().size(), 4u);
  empty.merge({});
  EXPECT_EQ(empty.entries().size(), 4u);
}

TEST(Logs, EntryValueErrors) {
  const Logs l = logs().add_loss("loss", 1, true).add_metric("accuracy", 2);
  expect_invalid({"'loss'", "'metrics.loss'", "'losses.loss'"}, [&] { l.entry_value("loss"); });
  expect_error(ErrorCode::not_found, {"'acuracy'", "'accuracy'"}, [&] { l.entry_value("acuracy"); });
  expect_error(ErrorCode::not_found, {"'metrics.los'", "'metrics.loss'"}, [&] { l.entry_value("metrics.los"); });
  expect_error(ErrorCode::not_found, {"'loss'"}, [] { logs().entry_value("loss"); });
}

TEST(LogValue, HostNumbers) {
  const LogValue value(0.25);
  EXPECT_TRUE(value.ready());
  EXPECT_EQ(value.value(), 0.25);
  EXPECT_EQ(value.scalar(), nullptr);
}

TEST(LogValue, IntegerIsExactOrRejected) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 53;
  for (const std::int64_t exact : {kLimit, -kLimit, kLimit + 2, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(static_cast<std::int64_t>(logs().add_metric("n", exact).entry_value("n")), exact);
  }
  EXPECT_EQ(logs().add_metric("n", std::uint64_t{1} << 63).entry_value("n"), 0x1p63);
  for (const std::int64_t rounded : {kLimit + 1, -kLimit - 1, std::numeric_limits<std::int64_t>::max()}) {
    expect_invalid({"'metrics.tokens'", std::to_string(rounded), "2^53"},
                   [&] { logs().add_metric("tokens", rounded); });
  }
  expect_invalid({"'losses.n'", "18446744073709551615"}, [] {
    logs().add_losses({{"n", std::numeric_limits<std::uint64_t>::max()}});
  });
}

TEST(LogValue, ScalarsOfAnyDType) {
  const Stream stream{Device::cpu()};
  float f = 0.1f;
  std::int64_t i = 1LL << 52;
  std::uint8_t u = 200;
  const auto value = [&](void* data, DType dtype) {
    return LogValue(nn::Var(Tensor(data, dtype, {}, Device::cpu()), stream)).value();
  };
  EXPECT_EQ(value(&f, DType::f32), static_cast<double>(0.1f));
  EXPECT_EQ(value(&i, DType::i64), static_cast<double>(1LL << 52));
  EXPECT_EQ(value(&u, DType::u8), 200);
}

TEST(LogValue, Arrays) {
  const auto numbers = std::make_shared<std::vector<float>>(std::vector{1.5f, 2.5f, 3.5f});
  const HostArray array(Tensor(numbers->data(), DType::f32, {3}, Device::cpu()), numbers);
  const Logs l = logs().add_output("y", array).add_output("n", HostArray::scalar(0.25)).add_output("x", 1);
  EXPECT_TRUE(l.ready());
  EXPECT_FALSE(l.entries()[0].value.is_scalar());
  EXPECT_TRUE(l.entries()[1].value.is_scalar());
  EXPECT_TRUE(l.entries()[2].value.is_scalar());
  EXPECT_EQ(l.entries()[0].value.array()->tensor().raw(), numbers->data());
  EXPECT_EQ(l.entries()[2].value.array(), nullptr);
  EXPECT_EQ(l.entry_value("n"), 0.25);
  expect_error(ErrorCode::shape_mismatch, {"'outputs.y'", "f32(3,)", "scalar"}, [&] { l.entry_value("y"); });
}

TEST(LogValue, MustBeAScalar) {
  const Stream stream{Device::cpu()};
  std::vector<float> numbers(3);
  const LogValue value(nn::Var(Tensor(numbers.data(), DType::f32, {3}, Device::cpu()), stream));
  expect_error(ErrorCode::shape_mismatch, {"(3,)", "scalar"}, [&] { value.value(); });
}

}  // namespace
}  // namespace giro
