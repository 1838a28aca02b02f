#include <giro/loop/data/npy.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/loop/log/history.h>

#include "runtime/files/npy.h"
#include "tests/loop/data/counting_files.h"
#include "tests/support/damaged_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutator.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

class NpyTest : public testing::Test {
 protected:
  static constexpr ErrorCode kCorrupt = ErrorCode::corrupt_data, kUnsupported = ErrorCode::unsupported;

  // A file of version 1 with this dictionary as its header, as NumPy writes it.
  static std::string npy_of(const std::string& dictionary, const std::string& elements) {
    const std::string text = dictionary + "   \n";
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + elements;
  }

  template <class T>
  static std::string bytes_of(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }

  static std::string floats(float first, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    return bytes_of(values);
  }

  static constexpr const char* kFloats = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";

  std::string file(const std::string& name, const std::string& content) { return folder_.write(name, content); }

  test::TemporaryDirectory folder_;
};

TEST_F(NpyTest, DatasetOfFilesEqualsDatasetOfArrays) {
  const std::string x = file("x.npy", npy_of(kFloats, floats(0, 6)));
  const std::string more =
      file("more.npy", npy_of("{'shape': (2, 2), 'fortran_order': False, 'descr': '<f4'}", floats(6, 4)));
  const std::string none = file("none.npy", npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", ""));
  const std::vector<std::int64_t> numbers{5, 6, 7, 8, 9};
  const std::string y =
      file("y.npy", npy_of("{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }", bytes_of(numbers)));
  std::vector<float> values;
  for (int i = 0; i < 10; ++i) values.push_back(static_cast<float>(i));
  const auto configured = [](const Dataset& rows) { return rows.shuffle(3).repeat(3).batch(4).prefetch(2); };
  const Dataset read = configured(Dataset({{"x", data::npy({x, none, more})}, {"y", data::npy(y)}}));
  const Dataset held = configured(Dataset({{"x", {values, {5, 2}}}, {"y", numbers}}));
  auto expected = held.begin();
  int batches = 0;
  for (const Batch& batch : read) {
    for (const char* name : {"x", "y"}) {
      const Tensor found = batch[name].value(), wanted = (*expected)[name].value();
      ASSERT_EQ(found.shape(), wanted.shape());
      EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), found.bytes()), 0) << name << " of batch " << batches;
    }
    ++expected;
    ++batches;
  }
  EXPECT_EQ(batches, 4);
}

TEST_F(NpyTest, EveryCommonDtype) {
  for (const auto& [name, dtype] : {std::pair{"|b1", DType::boolean},
                                    {"|u1", DType::u8},
                                    {"<u1", DType::u8},
                                    {"<f2", DType::f16},
                                    {"<f4", DType::f32},
                                    {"<f8", DType::f64},
                                    {"<i4", DType::i32},
                                    {"<i8", DType::i64}}) {
    const std::string dictionary = std::string("{'descr': '") + name + "', 'fortran_order': False, 'shape': (2,), }";
    const auto rows = data::npy(file("a.npy", npy_of(dictionary, std::string(2 * size_of(dtype), '\1'))));
    EXPECT_EQ(rows->dtype(), dtype) << name;
    EXPECT_EQ(rows->row_shape(), Shape());
  }
}

TEST_F(NpyTest, ReadsFilesWrittenByHistory) {
  History history;
  for (int i = 0; i < 3; ++i) {
    history.commit(Elapsed{.steps = i}, logs().add_metric("loss", 0.5 * i));
  }
  history.write_npy("loss", folder_ / "loss.npy");
  const auto rows = data::npy(folder_ / "loss.npy");
  ASSERT_EQ(rows->num_rows(), 3);
  double value = 0;
  rows->read(std::vector<std::int64_t>{2}, &value);
  EXPECT_EQ(value, 1.0);
}

TEST_F(NpyTest, LaterVersionsHaveALongerHeader) {
  const std::string one = npy_of(kFloats, floats(0, 6));
  for (const char version : {'\2', '\3'}) {
    const std::string path =
        file("a.npy", one.substr(0, 6) + version + '\0' + one[8] + std::string(3, '\0') + one.substr(10));
    EXPECT_EQ(data::npy(path)->num_rows(), 3);
  }
  for (const auto& [major, minor] : {std::pair{'\4', '\0'}, {'\0', '\0'}, {'\1', '\1'}, {'\1', '\x10'}, {'\2', '\1'}}) {
    expect_error(kCorrupt, {fmt::format("version {}.{}", int{major}, int{minor}), "1.0, 2.0 or 3.0"},
                 [&, &major = major, &minor = minor] {
                   data::npy(file("a.npy", one.substr(0, 6) + major + minor + one.substr(8)));
                 });
  }
}

TEST_F(NpyTest, NamesInvalidFiles) {
  const std::string good = npy_of(kFloats, floats(0, 6));
  const auto refuses = [&](ErrorCode code, std::initializer_list<std::string> parts, const std::string& content) {
    const std::string path = file("bad.npy", content);
    expect_error(code, parts, [&] { data::npy(path); });
    expect_error(code, {path}, [&] { data::npy(path); });
  };
  const auto with = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return npy_of("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }", floats(0, 6));
  };
  refuses(kCorrupt, {"not an NPY file"}, "");
  refuses(kCorrupt, {"not an NPY file"}, "a,b\n1,2\n");
  refuses(kCorrupt, {"ends within the header"}, good.substr(0, 9));
  refuses(kCorrupt, {"ends within the header"}, good.substr(0, 50));
  refuses(kCorrupt, {"f32(3, 2)", "6 elements of 4 bytes", "has " + std::to_string(good.size() - 1) + " bytes"},
          good.substr(0, good.size() - 1));
  refuses(kCorrupt, {"f32(3, 2)", "has " + std::to_string(good.size() + 1) + " bytes"}, good + "x");
  refuses(kUnsupported, {"Fortran order"}, with("'<f4'", "True", "(3, 2)"));
  refuses(kUnsupported, {"\">f4\"", "<f2, f4"}, with("'>f4'", "False", "(3, 2)"));
  refuses(kUnsupported, {"\"<c8\""}, with("'<c8'", "False", "(3,)"));
  refuses(kUnsupported, {"records"}, with("[('a', '<f4')]", "False", "(6,)"));
  refuses(kUnsupported, {"7 axes"}, with("'<f4'", "False", "(1, 1, 1, 1, 1, 1, 6)"));
  refuses(kCorrupt, {"tuple"}, with("'<f4'", "False", "(-3, 2)"));
  refuses(kCorrupt, {"a number", "(n,)"}, with("'<f4'", "False", "(6)"));
  refuses(kCorrupt, {"overflows"}, with("'<f4'", "False", "(4294967296, 4294967296)"));
  refuses(ErrorCode::shape_mismatch, {"shape ()"},
          npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", floats(0, 1)));
  expect_error(ErrorCode::not_found, {"nowhere.npy"}, [&] { data::npy(folder_ / "nowhere.npy"); });
  expect_invalid({"no path"}, [] { data::npy({}); });
}

TEST_F(NpyTest, FilesOfDifferentRowsAreBothNamed) {
  const std::string x = file("x.npy", npy_of(kFloats, floats(0, 6)));
  for (const auto& [other, rows] : {std::pair{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "f32(3,)"},
                                    {"{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }", "i32(2,)"}}) {
    const std::string y = file("y.npy", npy_of(other, floats(0, 6)));
    expect_error(ErrorCode::shape_mismatch, {y + ": its rows are " + rows + ", expected f32(2,), like those of " + x},
                 [&] {
                   data::npy({x, y});
                 });
  }
}

TEST_F(NpyTest, EachHeaderIsReadOnce) {
  const auto files = std::make_shared<test::CountingFiles>();
  const std::string x = file("x.npy", npy_of(kFloats, floats(0, 6))), y = file("y.npy", npy_of(kFloats, floats(6, 6)));
  EXPECT_EQ(data::npy({x, y}, files)->num_rows(), 6);
  EXPECT_EQ(files->opened, 2);
}

TEST_F(NpyTest, RejectsTooManyRows) {
  const std::string x =
      file("x.npy", npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0), }", ""));
  const std::string y = file("y.npy", npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0), }", ""));
  expect_invalid({y, "1 rows after 9223372036854775807", "at most 0"}, [&] { data::npy({x, y}); });
}

TEST_F(NpyTest, TruncatedFileIsAnErrorAtItsBatch) {
  const std::string x = file("x.npy", npy_of(kFloats, floats(0, 6)));
  const Dataset rows = Dataset({{"x", data::npy(x)}}).batch(1);
  std::filesystem::resize_file(x, std::filesystem::file_size(x) - 1);
  auto it = rows.begin();
  ++it;
  expect_error(kCorrupt, {x, "was longer"}, [&] { ++it; });
}

TEST_F(NpyTest, DamagedFilesAreRejectedOrReadSafely) {
  std::vector<std::string> files{npy_of(kFloats, floats(0, 6)),
                                 npy_of("{'shape': (4,), 'fortran_order': True, 'descr': '|u1', }", "abcd"),
                                 detail::npy_header(DType::i64, {0, 2, 3})};
  test::Mutator mutated(5);
  test::expect_damage_is_found([&] { return mutated(files[mutated.below(files.size())], files); },
                               [](test::OneFile& file) { detail::read_npy_header("file", file); });
}

}  // namespace
}  // namespace giro
