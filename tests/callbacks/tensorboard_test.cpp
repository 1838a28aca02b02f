// tensorboard_test.py checks the files with TensorBoard's own reader.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <giro/callbacks/summary_writer.h>
#include <giro/callbacks/tensorboard.h>
#include <giro/loop/callback.h>
#include <giro/loop/loop.h>

#include "callbacks/event_file.h"
#include "callbacks/histogram_buckets.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  }
  return text;
}

std::vector<std::string> event_files(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The data of an event file's records. Expects correct framing, except for an incomplete last record.
std::vector<std::string> records_of(const std::string& path) {
  const std::string file = test::read_text(path);
  std::vector<std::string> records;
  std::size_t begin = 0;
  while (begin + 12 <= file.size()) {
    std::uint64_t size = 0;
    for (int i = 7; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(file[begin + i]);
    const std::string record = file.substr(begin, 12 + size + 4);
    if (record.size() < 12 + size + 4) break;
    std::string expected;
    detail::append_tfrecord(expected, record.substr(12, size));
    EXPECT_EQ(hex(record), hex(expected)) << path;
    records.push_back(record.substr(12, size));
    begin += record.size();
  }
  return records;
}

TEST(TfRecord, HasChecksums) {
  EXPECT_EQ(detail::masked_crc32c("123456789"), 0xc78ab0e5u);
  std::string whole;
  detail::ProtoMessage event;
  event.add_double(1, 1.0).add_bytes(3, "brain.Event:2");
  detail::append_tfrecord(whole, event.bytes());
  EXPECT_EQ(hex(whole), "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
}

// However a file is damaged, exactly the records before the damage are read.
TEST(TfRecord, ReadsOnlyWholeRecords) {
  std::string file;
  detail::append_tfrecord(file, "first");
  const std::size_t second = file.size();
  detail::append_tfrecord(file, "");
  const auto read = [](std::string_view rest) {
    std::vector<std::string> records;
    while (const auto record = detail::take_tfrecord(rest)) records.emplace_back(*record);
    return records;
  };
  EXPECT_EQ(read(file), (std::vector<std::string>{"first", ""}));
  const auto expected = [&](std::size_t damage) {
    return damage < second ? std::vector<std::string>{} : std::vector<std::string>{"first"};
  };
  for (std::size_t i = 0; i < file.size(); ++i) {
    EXPECT_EQ(read(file.substr(0, i)), expected(i)) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      EXPECT_EQ(read(damaged), expected(i)) << i;
    }
  }
}

TEST(ProtoMessage, ReadsFieldsOfAnother) {
  detail::ProtoMessage message;
  message.add_double(1, 1).add_integer(2, -7).add_float(3, 1).add_bytes(500, "bytes").add_integer(2, 1);
  for (std::size_t size = 0; size <= message.bytes().size(); ++size) {
    std::vector<int> numbers;
    detail::read_fields(std::string_view(message.bytes()).substr(0, size), [&](int field, std::int64_t integer) {
      numbers.push_back(field);
      EXPECT_TRUE(field != 2 || integer == (numbers.size() == 2 ? -7 : 1)) << integer;
    });
    EXPECT_EQ(numbers == (std::vector<int>{1, 2, 3, 500, 2}), size == message.bytes().size()) << size;
  }
}

TEST(ProtoMessage, WritesVarints) {
  EXPECT_EQ(hex(detail::ProtoMessage().add_integer(1, 0).add_integer(2, 300).add_integer(16, -1).bytes()),
            "0800"
            "10ac02"
            "8001ffffffffffffffffff01");
  EXPECT_EQ(hex(detail::ProtoMessage().add_float(2, 1.f).bytes()), "150000803f");
}

TEST(EventFile, WritesAfterTheInterval) {
  const test::TemporaryDirectory dir;
  detail::EventFile events(dir.path(), posix_file_system(), 5);
  const detail::ProtoMessage nothing;
  std::string path;
  const auto add = [&](double date) {
    events.add_summary(date, 1, nothing);
    path = dir / event_files(dir.path()).at(0);
    return records_of(path).size();
  };
  EXPECT_EQ(add(1000), 2u);  // including the file's version
  EXPECT_EQ(add(1004.9), 2u);
  EXPECT_EQ(add(1005), 4u);
  EXPECT_EQ(add(1009), 4u);
  EXPECT_EQ(add(1003), 6u);  // the clock was set back
  EXPECT_EQ(add(1003), 6u);
  events.flush();
  EXPECT_EQ(records_of(path).size(), 7u);
  for (int i = 0; i < 10'000; ++i) events.add_summary(1003, 1, nothing);
  EXPECT_GT(records_of(path).size(), 5'000u);
}

TEST(EventFile, NameSortsAfterExistingFiles) {
  const test::TemporaryDirectory dir;
  const auto begin = [&](double date) {
    detail::EventFile(dir.path(), posix_file_system(), 5).add_session_start(date, 0);
  };
  for (const double date : {1000., 1000.5, 999.}) begin(date);
  test::write_text(dir / "events.out.tfevents.0000002000.of.another", "");
  begin(1500);
  const std::vector<std::string> names = event_files(dir.path());
  const std::vector<std::string> numbers{"0000001000", "0000001001", "0000001002", "0000002000", "0000002001"};
  ASSERT_EQ(names.size(), numbers.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i].substr(20, 10), numbers[i]);
}

// The steps of the scalars in a file. A step is the length of its tag after the word "scalar/", which cannot occur in
// the bytes of a date.
TEST(SummaryWriter, RemovesRepeatedSteps) {
  const test::TemporaryDirectory dir;
  const auto scalars_in = [&](std::size_t file) {
    std::vector<std::size_t> steps;
    for (const std::string& record : records_of(dir / event_files(dir.path()).at(file))) {
      const std::size_t word = record.find("scalar/");
      if (word != record.npos) steps.push_back(record.find_first_not_of('x', word + 7) - word - 7);
    }
    return steps;
  };
  const auto write = [&](std::size_t first, std::size_t last, const SummaryWriterOptions& options) {
    SummaryWriter writer(dir.path(), options);
    for (std::size_t step = first; step <= last; ++step) {
      writer.write_scalars(static_cast<std::int64_t>(step), {{"scalar/" + std::string(step, 'x'), 0}});
    }
  };
  using Steps = std::vector<std::size_t>;
  write(1, 5, {});
  write(4, 6, {.purge_step = 4});
  EXPECT_EQ(scalars_in(0), (Steps{1, 2, 3, 4, 5}));
  const std::string before = test::read_text(dir / event_files(dir.path()).at(0));
  // A crash left half a record.
  const std::string last = dir / event_files(dir.path()).at(1);
  const std::string whole = test::read_text(last);
  test::write_text(last, whole.substr(0, whole.size() - 3));
  write(7, 8, {.purge_step = 7, .resume = true});
  EXPECT_EQ(test::read_text(dir / event_files(dir.path()).at(0)), before);
  EXPECT_EQ(scalars_in(1), (Steps{4, 5}));
  write(5, 5, {.purge_step = 5, .resume = true});
  EXPECT_EQ(scalars_in(0), (Steps{1, 2, 3, 4}));
  EXPECT_EQ(scalars_in(1), (Steps{4}));
  EXPECT_EQ(scalars_in(2), Steps{});
  EXPECT_EQ(scalars_in(3), Steps{5});
  for (int file = 0; file < 4; ++file) {
    EXPECT_NE(records_of(dir / event_files(dir.path()).at(file)).at(0).find("brain.Event:2"), std::string::npos);
  }
}

TEST(SummaryWriter, LocksItsDirectory) {
  const test::TemporaryDirectory dir;
  SummaryWriter writer(dir / "a/b");
  expect_invalid({dir / "a/b", "is being written by process"}, [&] { SummaryWriter(dir / "a/b"); });
  writer.close();
  SummaryWriter(dir / "a/b").write_scalars(0, {{"a", 1}});
}

TEST(SummaryWriter, RejectsInvalidInput) {
  const test::TemporaryDirectory dir;
  expect_invalid({"name is empty"}, [] { SummaryWriter(""); });
  expect_invalid({dir.path(), "flush_interval is -1"}, [&] { SummaryWriter(dir.path(), {.flush_interval = -1}); });
  expect_invalid({dir.path(), "histogram_buckets is 0"}, [&] { SummaryWriter(dir.path(), {.histogram_buckets = 0}); });
  expect_invalid({dir.path(), "purge_step is -2"}, [&] { SummaryWriter(dir.path(), {.purge_step = -2}); });
  expect_invalid({dir.path(), "resume without purge_step"}, [&] { SummaryWriter(dir.path(), {.resume = true}); });
  SummaryWriter writer(dir.path());
  const ErrorCode invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {dir.path(), "step is -1"}, [&] { writer.write_scalars(-1, {{"a", 1}}); });
  expect_error(invalid, {dir.path(), "tag is empty"}, [&] { writer.write_texts(0, {{"", "a"}}); });
  expect_error(invalid, {"a\\xff", "UTF-8"}, [&] { writer.write_scalars(0, {{"a\xff", 1}}); });
  expect_error(invalid, {"text 'a'", "UTF-8"}, [&] { writer.write_texts(0, {{"a", "\xc3"}}); });
  expect_error(invalid, {"'lr'", "UTF-8"}, [&] { writer.write_hparams({{"lr", "\xc3"}}); });
  expect_error(invalid, {"'lr'", "inf"}, [&] {
    writer.write_hparams({{"lr", std::numeric_limits<double>::infinity()}});
  });
  const auto image = [&](auto values, const Shape& shape) {
    return [&writer, array = HostArray(std::move(values), shape)] { writer.write_images(0, {{"dog", array}}); };
  };
  expect_error(ErrorCode::shape_mismatch, {"'dog'", "(2, 2)", "(height, width, channels)"},
               image(std::vector<float>(4), {2, 2}));
  expect_error(ErrorCode::shape_mismatch, {"'dog'", "(2, 2, 2)"}, image(std::vector<float>(8), {2, 2, 2}));
  expect_error(ErrorCode::shape_mismatch, {"'dog'", "(1, 0, 2, 3)"}, image(std::vector<float>(), {1, 0, 2, 3}));
  expect_error(ErrorCode::shape_mismatch, {"'dog'", "()"}, [&] {
    writer.write_images(0, {{"dog", HostArray::scalar(1)}});
  });
  expect_error(ErrorCode::dtype_mismatch, {"'dog'", "i32"}, image(std::vector<std::int32_t>(4), {2, 2, 1}));
  expect_error(ErrorCode::unsupported, {"2000000"}, image(std::vector<std::uint8_t>(2'000'000), {1, 2'000'000, 1}));
  writer.flush();
  EXPECT_TRUE(event_files(dir.path()).empty());  // nothing was written
  writer.close();
  writer.close();
  expect_error(invalid, {dir.path(), "closed"}, [&] { writer.write_scalars(0, {{"a", 1}}); });
  expect_error(invalid, {dir.path(), "closed"}, [&] { writer.flush(); });
}

// Whichever call fails, it is reported once, and the files stay readable.
TEST(SummaryWriter, ReportsFailureOfEveryCall) {
  std::size_t call = 1;
  for (bool done = false; !done; ++call) {
    ASSERT_LT(call, 40u);
    const test::TemporaryDirectory dir;
    const auto files = std::make_shared<test::FaultyFileSystem>(call);
    std::size_t failed = 0;
    const auto attempt = [&](auto&& f) {
      try {
        f();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_NE(std::string(error.what()).find("injected"), std::string::npos) << error.what();
        ++failed;
      }
    };
    attempt([&] {
      SummaryWriter writer(dir.path(), {.flush_interval = 0, .files = files});
      for (int step = 0; step < 3; ++step) attempt([&] { writer.write_scalars(step, {{"a", 1}}); });
      attempt([&] { writer.sync(); });
      writer.close();
    });
    done = files->calls.size() < call;
    EXPECT_EQ(failed, done ? 0u : 1u) << "call " << call;
    std::size_t records = 0;
    for (const std::string& name : event_files(dir.path())) {
      const auto read = records_of(dir / name);
      if (name != event_files(dir.path()).front()) {
        EXPECT_NE(read.at(0).find("brain.Event:2"), std::string::npos);
      }
      records += read.size();
    }
    EXPECT_TRUE(!done || records == 4) << records;
  }
  EXPECT_GT(call, 8u);
}

TEST(HistogramBuckets, HaveEqualWidths) {
  std::vector<float> values{0, 1, 1, 2.5, 4};
  const Tensor tensor(values.data(), DType::f32, {5}, Device::cpu());
  EXPECT_EQ(detail::histogram_buckets(tensor, 4).rows, (std::vector<double>{0, 1, 1,  //
                                                                            1, 2, 2,  //
                                                                            2, 3, 1,  //
                                                                            3, 4, 1}));
}

TEST(HistogramBuckets, OfEqualOrMissingElements) {
  std::vector<double> same{7, 7, 7};
  EXPECT_EQ(detail::histogram_buckets(Tensor(same.data(), DType::f64, {3}, Device::cpu()), 2).rows,
            (std::vector<double>{7, 7, 0, 7, 7, 3}));
  EXPECT_EQ(detail::histogram_buckets(Tensor(same.data(), DType::f64, {0}, Device::cpu()), 2).rows,
            std::vector<double>(6));
  std::vector<std::uint8_t> flags{0, 1, 1};
  EXPECT_EQ(detail::histogram_buckets(Tensor(flags.data(), DType::boolean, {3}, Device::cpu()), 2).rows,
            (std::vector<double>{0, 0.5, 1, 0.5, 1, 2}));
}

TEST(HistogramBuckets, OfAllFiniteNumbers) {
  constexpr double kMax = std::numeric_limits<double>::max(), kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values{-kMax, 0, kMax, kInfinity, -kInfinity, std::nan("")};
  const auto buckets = detail::histogram_buckets(Tensor(values.data(), DType::f64, {6}, Device::cpu()), 2);
  EXPECT_EQ(buckets.rows, (std::vector<double>{-kMax, 0, 1, 0, kMax, 2}));
  EXPECT_EQ(buckets.not_finite, 3);
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  std::vector<double> tiny{0, kTiny};
  EXPECT_EQ(detail::histogram_buckets(Tensor(tiny.data(), DType::f64, {2}, Device::cpu()), 2).rows[5], 1);
}

TEST(TensorBoard, IsAnObserverAndHistogramsAreABarrier) {
  const test::TemporaryDirectory dir;
  const TensorBoard board = tensorboard(dir.path());
  EXPECT_EQ((Callback<State, int>(board).kind()), CallbackKind::observer);
  EXPECT_EQ((Callback<State, int>(board.histograms()).kind()), CallbackKind::barrier);
  EXPECT_TRUE((Callback<State, int>(board)->traits.is_primary_only));
  EXPECT_TRUE((Callback<State, int>(board.histograms())->traits.is_primary_only));
  EXPECT_TRUE(event_files(dir.path()).empty());  // not before a loop begins
  expect_invalid({dir.path(), "before a loop begins"}, [&] { board.writer(); });
}

// An array entry becomes a number, and a number entry an array.
TEST(TensorBoard, WritesTheTagsOfEachStep) {
  const test::TemporaryDirectory dir;
  {
    TensorBoard board = tensorboard(dir.path());
    const HostArray array(std::vector<float>{1, 2});
    board({.steps = 0}, logs().add_output("first", array).add_output("second", 1));
    board({.steps = 1}, logs().add_output("first", 2).add_output("second", array));
    board({.steps = 2}, logs().add_output("first", array).add_output("second", array));
    board({.steps = 3}, logs().add_metric("loss", 3));
  }
  const auto records = records_of(dir / event_files(dir.path()).at(0));
  const std::vector<std::string> tags{"outputs/second", "outputs/first", "metrics/loss"};
  ASSERT_EQ(records.size(), 2 + tags.size());  // including the version and the session start
  for (std::size_t i = 0; i < tags.size(); ++i) EXPECT_NE(records[2 + i].find(tags[i]), std::string::npos) << i;
}

TEST(TensorBoard, UnknownCollectionIsAnError) {
  const test::TemporaryDirectory dir;
  const DeviceContext context{Device::cpu()};
  State state(context);
  state.add("params", {{"w", DType::f32, {2}}});
  const TensorBoard board = tensorboard(dir.path());
  board.histograms({"params"})({}, state);
  expect_error(ErrorCode::not_found, {"'parms'", "'params'"}, [&] { board.histograms({"parms"})({}, state); });
}

}  // namespace
}  // namespace giro
