#include "loop/data/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/runtime/stream.h>

#include "tests/loop/data/idx_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/one_file.h"
#include "tests/support/temporary_directory.h"

namespace giro::data {
namespace {

namespace fs = std::filesystem;
using test::big_endian;
using test::expect_error;
using test::expect_invalid;
using test::gzip;
using test::idx;

class IdxTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_ / name; }
  std::string write(const std::string& name, const std::string& bytes) const { return dir_.write(name, bytes); }

  template <class T>
  static std::vector<T> values(const IdxFile& file) {
    return to_host<T>(file.values, Stream(Device::cpu()));
  }

  const test::TemporaryDirectory dir_;
};

TEST_F(IdxTest, ReadsEverySupportedType) {
  const IdxFile u8 = read_idx(write("u8", idx(0x08, {2, 3}, {"\x00\x01\x02\xfd\xfe\xff", 6})));
  EXPECT_EQ(u8.values.shape(), Shape({2, 3}));
  EXPECT_EQ(values<std::uint8_t>(u8), (std::vector<std::uint8_t>{0, 1, 2, 253, 254, 255}));
  EXPECT_EQ(u8.magic, 0x00000802u);
  EXPECT_EQ(u8.path, path("u8"));

  const std::vector<std::int32_t> integers = {0, -1, 0x01020304, INT32_MIN};
  std::string bytes;
  for (const std::int32_t value : integers) bytes += big_endian(static_cast<std::uint32_t>(value), 4);
  EXPECT_EQ(values<std::int32_t>(read_idx(write("i32", idx(0x0C, {4}, bytes)))), integers);

  const std::vector<float> floats = {0.f, -1.5f, 3e38f};
  bytes.clear();
  for (const float value : floats) bytes += big_endian(std::bit_cast<std::uint32_t>(value), 4);
  EXPECT_EQ(values<float>(read_idx(write("f32", idx(0x0D, {3, 1}, bytes)))), floats);

  const std::vector<double> doubles = {0, -1.5, 1e300};
  bytes.clear();
  for (const double value : doubles) bytes += big_endian(std::bit_cast<std::uint64_t>(value), 8);
  EXPECT_EQ(values<double>(read_idx(write("f64", idx(0x0E, {1, 3}, bytes)))), doubles);
}

TEST_F(IdxTest, ShapesFromScalarToSixAxes) {
  EXPECT_EQ(read_idx(write("scalar", idx(0x08, {}, "x"))).values.shape(), Shape({}));
  EXPECT_EQ(read_idx(write("six", idx(0x08, {1, 2, 1, 1, 3, 1}, "abcdef"))).values.shape(), Shape({1, 2, 1, 1, 3, 1}));
  EXPECT_EQ(read_idx(write("empty", idx(0x08, {0, 5}, ""))).values.count(), 0);
  EXPECT_EQ(read_idx(write("empty.gz", gzip(idx(0x0D, {5, 0}, "")))).values.count(), 0);
  expect_error(ErrorCode::unsupported, {"seven", "7 axes"}, [&] {
    read_idx(write("seven", idx(0x08, {1, 1, 1, 1, 1, 1, 1}, "x")));
  });
}

TEST_F(IdxTest, DetectsGzipByContent) {
  const std::string text = idx(0x08, {3}, "abc");
  const std::vector<std::uint8_t> expected = {'a', 'b', 'c'};
  EXPECT_EQ(values<std::uint8_t>(read_idx(write("packed", gzip(text)))), expected);
  EXPECT_EQ(values<std::uint8_t>(read_idx(write("plain.gz", text))), expected);
}

TEST_F(IdxTest, FallsBackToTheGzippedFile) {
  write("a.gz", gzip(idx(0x08, {1}, "z")));
  const IdxFile packed = read_idx(path("a"));
  EXPECT_EQ(values<std::uint8_t>(packed), std::vector<std::uint8_t>{'z'});
  EXPECT_EQ(packed.path, path("a.gz"));
  write("a", idx(0x08, {1}, "p"));
  EXPECT_EQ(values<std::uint8_t>(read_idx(path("a"))), std::vector<std::uint8_t>{'p'});
}

TEST_F(IdxTest, ReadsLargeAndHighlyCompressedFiles) {
  constexpr std::uint32_t kSize = 3'000'017;
  std::string elements(kSize, '\0');
  std::uint32_t random = 1;
  for (char& c : elements) c = static_cast<char>((random = random * 1664525u + 1013904223u) >> 24);
  const auto expect_read = [&](const std::string& name, const std::string& bytes) {
    const IdxFile file = read_idx(write(name, bytes));
    ASSERT_EQ(file.values.shape(), Shape({kSize}));
    EXPECT_EQ(std::memcmp(file.values.raw(), elements.data(), kSize), 0) << name;
  };
  expect_read("plain", idx(0x08, {kSize}, elements));
  expect_read("random.gz", gzip(idx(0x08, {kSize}, elements)));
  elements.assign(kSize, 'x');
  expect_read("repetitive.gz", gzip(idx(0x08, {kSize}, elements)));
}

TEST_F(IdxTest, SeveralGzipMembersAreOneFile) {
  const std::string text = idx(0x08, {4}, "abcd");
  const IdxFile file = read_idx(write("members", gzip(text.substr(0, 9)) + gzip("") + gzip(text.substr(9))));
  EXPECT_EQ(values<std::uint8_t>(file), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd'}));
}

TEST_F(IdxTest, TruncatedAnywhereIsAnError) {
  const std::string text = idx(0x0C, {2, 2}, std::string("0123456789abcdef"));
  for (const std::string& whole : {text, gzip(text)}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      SCOPED_TRACE(size);
      expect_error(ErrorCode::corrupt_data, {path("cut")}, [&] { read_idx(write("cut", whole.substr(0, size))); });
    }
    EXPECT_EQ(read_idx(write("cut", whole)).values.count(), 4);
  }
}

TEST_F(IdxTest, FlippedBitOfGzipIsAnErrorOrHarmless) {
  const std::string text = idx(0x08, {2, 8}, "0123456789abcdef"), packed = gzip(text);
  for (std::size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      const IdxFile file = read_idx(write("damaged", damaged));
      EXPECT_EQ(std::memcmp(file.values.raw(), "0123456789abcdef", 16), 0) << bit;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path("damaged")), std::string::npos) << error.what();
    }
  }
}

TEST_F(IdxTest, TrailingBytesAreAnError) {
  const std::string text = idx(0x08, {3}, "abc");
  const auto expect_corrupt = [&](const std::string& bytes) {
    expect_error(ErrorCode::corrupt_data, {path("long")}, [&] { read_idx(write("long", bytes)); });
  };
  expect_corrupt(text + "d");
  expect_corrupt(gzip(text + "d"));
  expect_corrupt(gzip(text) + "d");
  expect_corrupt(gzip(text) + gzip("d"));
  expect_corrupt(gzip(text) + std::string(512, '\0'));
}

TEST_F(IdxTest, SizesAreValidated) {
  const std::vector<std::vector<std::uint32_t>> hostile = {
      {4},
      {0xffffffff},
      {0xffffffff, 0xffffffff},
      {0x80000000, 0x80000000, 4},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
      {0xffffffff, 0xffffffff, 0xffffffff, 0},
      {0x10000, 0x10000, 0x10000, 0x10000},  // 2^64
  };
  for (const auto& sizes : hostile) {
    for (const auto type : std::vector<unsigned char>{0x08, 0x0E}) {
      const std::string text = idx(type, sizes, "abc");
      expect_error(ErrorCode::corrupt_data, {path("big"), "header declares"}, [&] { read_idx(write("big", text)); });
      expect_error(ErrorCode::corrupt_data, {path("big"), "header declares"},
                   [&] { read_idx(write("big", gzip(text))); });
    }
  }
  expect_error(ErrorCode::corrupt_data, {"4 bytes", "u8", "(2, 2)", "found 3"}, [&] {
    read_idx(write("short", idx(0x08, {2, 2}, "abc")));
  });
}

TEST_F(IdxTest, RejectsOtherFormats) {
  expect_error(ErrorCode::corrupt_data, {path("text"), "not an IDX file"},
               [&] { read_idx(write("text", "hello, world")); });
  expect_error(ErrorCode::corrupt_data, {"element type 0x0a"}, [&] { read_idx(write("type", idx(0x0A, {1}, "x"))); });
  expect_error(ErrorCode::unsupported, {"i8"}, [&] { read_idx(write("i8", idx(0x09, {1}, "x"))); });
  expect_error(ErrorCode::unsupported, {"i16"}, [&] { read_idx(write("i16", idx(0x0B, {1}, "xx"))); });
  expect_error(ErrorCode::corrupt_data, {path("nothing")}, [&] { read_idx(write("nothing", "")); });
}

TEST_F(IdxTest, RejectsNonFiles) {
  expect_error(ErrorCode::not_found, {path("none"), ".gz"}, [&] { read_idx(path("none")); });
  fs::create_directory(dir_ / "folder");
  expect_error(ErrorCode::io, {path("folder"), "not a regular file"}, [&] { read_idx(path("folder")); });
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(ErrorCode::io, {path("pipe"), "not a regular file"}, [&] { read_idx(path("pipe")); });
  if (geteuid() != 0) {
    const std::string locked = write("locked", idx(0x08, {1}, "x"));
    fs::permissions(locked, fs::perms::none);
    expect_error(ErrorCode::io, {locked}, [&] { read_idx(locked); });
  }
}

TEST_F(IdxTest, ReadsThroughTheFileSystem) {
  test::OneFile file(gzip(idx(0x08, {3}, "abc")));
  EXPECT_EQ(values<std::uint8_t>(read_idx("file", file)), (std::vector<std::uint8_t>{'a', 'b', 'c'}));
  expect_error(ErrorCode::not_found, {"other", ".gz"}, [&] { read_idx("other", file); });

  write("a.gz", gzip(idx(0x08, {1}, "z")));
  for (const std::size_t call : {1u, 2u}) {  // the read of a, which does not exist, and of a.gz
    test::FaultyFileSystem faulty(call);
    expect_error(ErrorCode::io, {"injected: read a"}, [&] { read_idx(path("a"), faulty); });
    EXPECT_EQ(faulty.calls.size(), call);
  }
}

// The header of such a file ends at an offset that is not aligned for a double.
TEST_F(IdxTest, ElementsAreAligned) {
  for (const bool packed : {false, true}) {
    const std::string text = idx(0x0E, {1, 1}, big_endian(std::bit_cast<std::uint64_t>(2.5), 8));
    const IdxFile file = read_idx(write("f64", packed ? gzip(text) : text));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.values.raw()) % alignof(double), 0u);
    EXPECT_EQ(values<double>(file), std::vector<double>{2.5});
  }
}

class MnistTest : public IdxTest {
 protected:
  MnistTest() {
    write("train-images-idx3-ubyte",
          idx(0x08, {3, 2, 5}, std::string(10, 'a') + std::string(10, 'b') + std::string(10, 'c')));
    write("train-labels-idx1-ubyte.gz", gzip(idx(0x08, {3}, {"\x00\x09\x05", 3})));
    write("t10k-images-idx3-ubyte.gz", gzip(idx(0x08, {1, 1, 1}, "t")));
    write("t10k-labels-idx1-ubyte", idx(0x08, {1}, {"\x07", 1}));
  }

  Dataset load(const std::string& split) const { return mnist(split, {.dir = dir_.path()}); }
  void expect_corrupt(std::initializer_list<std::string> words) const {
    expect_error(ErrorCode::corrupt_data, words, [&] { load("train"); });
  }
};

TEST_F(MnistTest, ReadsBothSplits) {
  const Dataset train = load("train").batch(3), test = load("test").batch(1);
  const Batch batch = *train.begin();
  EXPECT_EQ(batch["image"].shape(), Shape({3, 2, 5, 1}));
  EXPECT_EQ(batch["image"].data<std::uint8_t>()[10], 'b');
  EXPECT_EQ(batch["label"].shape(), Shape({3}));
  EXPECT_EQ(batch["label"].data<std::uint8_t>()[1], 9);
  EXPECT_EQ(batch.spec()[0].name, "image") << "the model's input comes first";
  EXPECT_EQ((*test.begin())["label"].data<std::uint8_t>()[0], 7);
}

TEST_F(MnistTest, RejectsUnknownSplit) {
  expect_invalid({"'valid'", "train", "test"}, [&] { load("valid"); });
}

TEST_F(MnistTest, NamesTheMissingFile) {
  fs::remove(dir_ / "train-labels-idx1-ubyte.gz");
  expect_error(ErrorCode::not_found, {path("train-labels-idx1-ubyte")}, [&] { load("train"); });
  expect_error(ErrorCode::not_found, {"/nowhere/train-images-idx3-ubyte"}, [] { mnist("train", {.dir = "/nowhere"}); });
}

TEST_F(MnistTest, UnreadableFileIsAnError) {
  const auto healthy = std::make_shared<test::FaultyFileSystem>();
  mnist("train", {.dir = dir_.path(), .files = healthy});
  EXPECT_EQ(healthy->calls, (std::vector<std::string>{"read train-images-idx3-ubyte", "read train-labels-idx1-ubyte",
                                                      "read train-labels-idx1-ubyte.gz"}));
  for (std::size_t call = 1; call <= healthy->calls.size(); ++call) {
    const auto faulty = std::make_shared<test::FaultyFileSystem>(call);
    expect_error(ErrorCode::io, {"injected: " + healthy->calls[call - 1]},
                 [&] { mnist("train", {.dir = dir_.path(), .files = faulty}); });
  }
}

TEST_F(MnistTest, RejectsWrongMagic) {
  write("train-images-idx3-ubyte", idx(0x08, {3}, "abc"));
  expect_corrupt({path("train-images-idx3-ubyte"), "00000801", "00000803"});
  write("train-images-idx3-ubyte", idx(0x0C, {1, 1, 1}, "abcd"));
  expect_corrupt({path("train-images-idx3-ubyte"), "00000c03", "00000803"});
}

TEST_F(MnistTest, RejectsDifferentCounts) {
  write("train-labels-idx1-ubyte.gz", gzip(idx(0x08, {2}, {"\x00\x01", 2})));
  expect_corrupt({path("train-labels-idx1-ubyte.gz"), "2 labels", "3 images", path("train-images-idx3-ubyte")});
}

TEST_F(MnistTest, RejectsLabelOutOfRange) {
  write("train-labels-idx1-ubyte.gz", gzip(idx(0x08, {3}, {"\x00\x0a\x05", 3})));
  expect_corrupt({path("train-labels-idx1-ubyte.gz"), "label 10", "sample 1", "below 10"});
}

TEST_F(MnistTest, RejectsEmptyData) {
  write("train-images-idx3-ubyte", idx(0x08, {3, 0, 5}, ""));
  expect_corrupt({path("train-images-idx3-ubyte"), "(3, 0, 5)"});
}

TEST_F(MnistTest, ReadsDebiansFashionMnist) {
  if (!fs::exists(MnistOptions().dir)) GTEST_SKIP() << "package dataset-fashion-mnist is not installed";
  const Dataset train = mnist("train"), test = mnist("test");
  EXPECT_EQ(train.num_rows(), 60'000);
  EXPECT_EQ(test.num_rows(), 10'000);
  EXPECT_EQ(train.spec()[0].shape, Shape({1, 28, 28, 1}));
  std::vector<int> counts(10);
  for (const Batch& batch : test.batch(1000)) {
    for (int i = 0; i < 1000; ++i) ++counts[batch["label"].data<std::uint8_t>()[i]];
  }
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
}

}  // namespace
}  // namespace giro::data
