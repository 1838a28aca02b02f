#include <giro/runtime/files/safetensors.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/stream.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

// A file with this header, unchanged, and this data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
}

std::uint64_t header_size(const std::string& file) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  return size;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string path() const { return dir_ / "a.safetensors"; }

  void write(const std::vector<Leaf>& tensors, const std::map<std::string, std::string>& metadata = {}) const {
    const auto writer = posix_file_system()->create(path());
    write_safetensors(*writer, tensors, metadata);
    writer->close();
  }
  Safetensors read() const { return read_safetensors(*posix_file_system(), path()); }
  Safetensors read(const std::string& bytes) const {
    test::write_text(path(), bytes);
    return read();
  }
  void expect_rejected(std::initializer_list<std::string> words, const std::string& bytes,
                       ErrorCode code = ErrorCode::corrupt_data) const {
    expect_error(code, {path()}, [&] { read(bytes); });
    expect_error(code, words, [&] { read(bytes); });
  }

  test::TemporaryDirectory dir_;
};

template <class T>
Leaf leaf(const std::string& path, std::vector<T>& values, const Shape& shape) {
  return {path, Tensor(values.data(), dtype_of<T>, shape, Device::cpu())};
}

TEST_F(SafetensorsTest, ReadsWhatItWrote) {
  std::vector<std::uint8_t> u8{1, 2, 255}, flags{0, 1, 1};
  std::vector<float> f32{1.5f, -2, 3, 4, std::numeric_limits<float>::quiet_NaN(), 0};
  std::vector<double> f64{0.1};
  std::vector<std::int64_t> i64{-5, std::numeric_limits<std::int64_t>::min()}, none;
  std::vector<std::int32_t> i32{7};
  std::vector<BFloat16> bf16{BFloat16(1.f)};
  std::vector<Float16> f16{Float16(2.f), Float16(-1.f)};
  const Leaf boolean{"bool", Tensor(flags.data(), DType::boolean, {3}, Device::cpu())};
  const std::vector<Leaf> tensors{leaf("u8", u8, {3}),        boolean,
                                  leaf("f32", f32, {2, 3}),   leaf("f64", f64, {}),
                                  leaf("bf16", bf16, {1, 1}), leaf("f16", f16, {2}),
                                  leaf("i64", i64, {2}),      leaf("i32", i32, {1}),
                                  leaf("none", none, {0, 4})};
  const std::map<std::string, std::string> metadata{{"steps", "12"}, {"quote \" and\nline", "\xc3\xa9"}};
  write(tensors, metadata);

  const Safetensors file = read();
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const Leaf& found : file.tensors) {
    const auto expected =
        std::find_if(tensors.begin(), tensors.end(), [&](const Leaf& other) { return other.path == found.path; });
    ASSERT_NE(expected, tensors.end()) << found.path;
    EXPECT_EQ(found.value.dtype(), expected->value.dtype()) << found.path;
    EXPECT_EQ(found.value.shape(), expected->value.shape()) << found.path;
    EXPECT_TRUE(found.value.device().is_cpu());
    if (found.value.bytes() > 0) {
      EXPECT_EQ(std::memcmp(found.value.raw(), expected->value.raw(), found.value.bytes()), 0) << found.path;
    }
  }
}

TEST_F(SafetensorsTest, WritesWidestFirstThenByNameAtMultiplesOf64) {
  for (std::size_t length = 1; length < 130; ++length) {
    std::vector<std::uint8_t> a{1}, b{2};
    std::vector<float> x{1}, y{2};
    std::vector<double> z{3};
    write({leaf("b", b, {1}), leaf("y", y, {1}), leaf("a", a, {1}), leaf("x", x, {1}),
           leaf(std::string(length, 'z'), z, {1})});
    const std::string bytes = test::read_text(path());
    EXPECT_EQ((8 + header_size(bytes)) % 64, 0u);
    EXPECT_EQ(bytes.size(), 8 + header_size(bytes) + 8 + 4 + 4 + 1 + 1);
    std::string order;
    for (const Leaf& found : read().tensors) order += found.path[0];
    EXPECT_EQ(order, "zxyab");
  }
}

TEST_F(SafetensorsTest, WritesTheSpecifiedBytes) {
  std::vector<float> x{1, 2};
  write({leaf("x", x, {2})}, {{"a", "b"}});
  const std::string bytes = test::read_text(path());
  const std::string header = R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(header_size(bytes), 120u);
  EXPECT_EQ(bytes.substr(8, 120), header + std::string(120 - header.size(), ' '));
  EXPECT_EQ(bytes.substr(128), std::string("\x00\x00\x80\x3f\x00\x00\x00\x40", 8));
}

TEST_F(SafetensorsTest, WritesAndReadsAnEmptyFile) {
  write({});
  const Safetensors file = read();
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

TEST_F(SafetensorsTest, RejectsWritingWhatItCouldNotRead) {
  std::vector<float> x{1};
  expect_error(ErrorCode::invalid_argument, {"\"a\"", "taken"}, [&] {
    write({leaf("a", x, {1}), leaf("b", x, {1}), leaf("a", x, {})});
  });
  expect_error(ErrorCode::invalid_argument, {"__metadata__"}, [&] { write({leaf("__metadata__", x, {1})}); });
  expect_error(ErrorCode::invalid_argument, {"UTF-8"}, [&] { write({leaf("\xff", x, {1})}); });
  expect_error(ErrorCode::invalid_argument, {"UTF-8"}, [&] { write({}, {{"a", "\xff"}}); });
}

TEST_F(SafetensorsTest, ReadsFilesOfOtherWriters) {
  // Whitespace, another order, escapes, padding, an empty tensor between others, and nothing aligned.
  const std::string header =
      "{ \"w\\u0065ight\" : {\"data_offsets\":[1,9],\"shape\":[1, 2],\"dtype\":\"F32\"},\n"
      "\"none\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[1,1]},"
      "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},\"__metadata__\":{}}   ";
  const Safetensors file = read(file_of(header, std::string("\x01\x00\x00\x80\x3f\x00\x00\x00\x40", 9)));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].path, "flag");
  EXPECT_EQ(file.tensors[0].value.shape(), Shape());
  EXPECT_EQ(file.tensors[1].path, "none");
  EXPECT_EQ(file.tensors[1].value.shape(), Shape({3, 0}));
  EXPECT_EQ(file.tensors[2].path, "weight");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensors[2].value.raw()) % sizeof(float), 0u);
  EXPECT_EQ(to_host<float>(file.tensors[2].value, Stream(Device::cpu())), (std::vector<float>{1, 2}));
}

TEST_F(SafetensorsTest, ReadsTheMetadataWithoutTheData) {
  std::vector<float> x{1, 2};
  write({leaf("x", x, {2})}, {{"steps", "7"}});
  const std::string whole = test::read_text(path());
  test::write_text(path(), whole.substr(0, whole.size() - 8));
  const auto metadata = read_safetensors_metadata(*posix_file_system(), path());
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"steps", "7"}}));
  for (const std::size_t size : {0u, 7u, 8u, 40u}) {
    test::write_text(path(), whole.substr(0, size));
    expect_error(ErrorCode::corrupt_data, {path()}, [&] { read_safetensors_metadata(*posix_file_system(), path()); });
  }
}

TEST_F(SafetensorsTest, TensorsOutliveTheStruct) {
  std::vector<float> x{1, 2};
  write({leaf("x", x, {2})});
  std::shared_ptr<const void> memory;
  Tensor value;
  {
    const Safetensors file = read();
    memory = file.memory;
    value = file.tensors[0].value;
  }
  EXPECT_EQ(value.data<float>()[1], 2);
}

TEST_F(SafetensorsTest, RejectsMissingFile) {
  expect_error(ErrorCode::not_found, {path()}, [&] { read(); });
}

std::string entry(const std::string& fields) { return R"({"a":{)" + fields + "}}"; }
const std::string kGood = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";

TEST_F(SafetensorsTest, RejectsBadHeaderSizes) {
  expect_rejected({"has 0 bytes"}, "");
  expect_rejected({"has 7 bytes"}, "1234567");
  const auto sized = [](std::uint64_t size, const std::string& rest) {
    return std::string(reinterpret_cast<const char*>(&size), 8) + rest;
  };
  expect_rejected({"18446744073709551615"}, sized(std::numeric_limits<std::uint64_t>::max(), "{}"));
  expect_rejected({"18446744073709551608"}, sized(std::numeric_limits<std::uint64_t>::max() - 7, "{}"));
  expect_rejected({"claims 100000001 bytes", "more than 100000000"}, sized(100'000'001, "{}"));
  expect_rejected({"claims 100000000 bytes", "has 10"}, sized(100'000'000, "{}"));
  expect_rejected({"claims 3 bytes"}, sized(3, "{}"));
  expect_rejected({"does not begin with '{'"}, sized(0, ""));
  expect_rejected({"does not begin with '{'"}, file_of(" {}", ""));
  expect_rejected({"does not begin with '{'"}, file_of("\xef\xbb\xbf{}", ""));
  EXPECT_TRUE(read(file_of("{}", "")).tensors.empty());
}

TEST_F(SafetensorsTest, RejectsInvalidJson) {
  for (const char* header : {"{", "{]", "{\"a\"}", "{}}", "{} x", "{'a':1}", "{\"a\":tru}", "{\"\xff\":{}}",
                             "{\"a\nb\":{}}", "{/**/}", "{\"a\":", "{\"a\":{\"shape\":[1,]"}) {
    expect_rejected({"not valid JSON"}, file_of(header, ""));
  }
  expect_rejected({"not valid JSON at byte 3"}, file_of(std::string("{}\0", 3), ""));
  expect_rejected({"not valid JSON"}, file_of(entry(R"("dtype":"U8","shape":[1e999],"data_offsets":[0,4])"), "1234"));
}

TEST_F(SafetensorsTest, RejectsDeepNesting) {
  expect_rejected({"described by an object"}, file_of("{\"a\":" + std::string(1'000'000, '['), ""));
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  expect_rejected({"unknown field"}, file_of(objects, ""));
}

TEST_F(SafetensorsTest, RejectsDuplicateNames) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_rejected({"\"a\"", "twice"}, file_of("{" + a + "," + a + "}", "1234"));
  expect_rejected({"\"a\"", "twice"},
                  file_of("{" + a + R"(,"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "12345678"));
  expect_rejected({"\"dtype\" twice"}, file_of(entry(R"("dtype":"U8",)" + kGood), "1234"));
  expect_rejected({"\"shape\" twice"}, file_of(entry(kGood + R"(,"shape":[4])"), "1234"));
  expect_rejected({"\"data_offsets\" twice"}, file_of(entry(kGood + R"(,"data_offsets":[0,4])"), "1234"));
  expect_rejected({"__metadata__", "twice"}, file_of(R"({"__metadata__":{},"__metadata__":{}})", ""));
  expect_rejected({"metadata \"k\"", "twice"}, file_of(R"({"__metadata__":{"k":"1","k":"1"}})", ""));
}

TEST_F(SafetensorsTest, RejectsWrongTypes) {
  for (const std::string value : {"1", "null", "[]", "{}", "true", "1.5", "-1"}) {
    expect_rejected({"metadata \"k\" is not a string"}, file_of(R"({"__metadata__":{"k":)" + value + "}}", ""));
    if (value != "{}") {
      expect_rejected({"'__metadata__' is not an object"}, file_of(R"({"__metadata__":)" + value + "}", ""));
      expect_rejected({"by an object"}, file_of(R"({"a":)" + value + "}", ""));
    }
    expect_rejected({"the dtype of tensor \"a\" is not a string"}, file_of(entry(R"("dtype":)" + value), ""));
    if (value != "[]") expect_rejected({"not a list of sizes"}, file_of(entry(R"("shape":)" + value), ""));
    expect_rejected({"not two offsets"}, file_of(entry(R"("data_offsets":)" + value), ""));
  }
  for (const char* size : {"-1", "1.0", "1e2", "\"1\"", "null", "[1]", "{}", "true", "18446744073709551616"}) {
    expect_rejected({"not a list of sizes"}, file_of(entry(std::string(R"("shape":[)") + size + "]"), ""));
  }
  for (const char* offsets : {"0", "0,4,4", "0,-4", "0,4.0", "\"0\",4", "[0,4]", ""}) {
    expect_rejected({"not two offsets"}, file_of(entry(std::string(R"("data_offsets":[)") + offsets + "]"), ""));
  }
  expect_rejected({"unknown field \"x\""}, file_of(entry(kGood + R"(,"x":1)"), "1234"));
  expect_rejected({"no dtype"}, file_of(entry(R"("shape":[4],"data_offsets":[0,4])"), "1234"));
  expect_rejected({"no shape"}, file_of(entry(R"("dtype":"U8","data_offsets":[0,4])"), "1234"));
  expect_rejected({"no data_offsets"}, file_of(entry(R"("dtype":"U8","shape":[4])"), "1234"));
}

TEST_F(SafetensorsTest, RejectsUnsupportedDTypes) {
  for (const char* dtype : {"F8_E4M3", "U16", "f32", ""}) {
    const std::string fields = std::string(R"("dtype":")") + dtype + R"(","shape":[4],"data_offsets":[0,4])";
    expect_rejected({"\"a\"", std::string("\"") + dtype + "\""}, file_of(entry(fields), "1234"),
                    ErrorCode::unsupported);
  }
  expect_rejected({"\"a\"", "more than 6 axes"},
                  file_of(entry(R"("dtype":"U8","shape":[1,1,1,1,1,1,4],"data_offsets":[0,4])"), "1234"),
                  ErrorCode::unsupported);
}

TEST_F(SafetensorsTest, RejectsMismatchedShapes) {
  const auto shaped = [](const std::string& dtype, const std::string& shape) {
    return file_of(entry(R"("dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[0,4])"), "1234");
  };
  expect_rejected({"\"a\"", "u8(5)", "4 bytes"}, shaped("U8", "5"));
  expect_rejected({"u8(3)"}, shaped("U8", "3"));
  expect_rejected({"u8(0)"}, shaped("U8", "0"));
  expect_rejected({"f32()", "3 bytes"}, file_of(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,3])"), "123"));
  expect_rejected({"f64()"}, shaped("F64", ""));
  expect_rejected({"overflows"}, shaped("U8", "9223372036854775808"));
  expect_rejected({"overflows"}, shaped("U8", "4294967296,4294967296"));
  expect_rejected({"overflows"}, shaped("U8", "4294967296,4294967296,0"));
  // 2^62 elements of 4 bytes: 2^64 bytes, which is 0 in 64 bits.
  expect_rejected({"its data has 0 bytes"},
                  file_of(entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), ""));
}

TEST_F(SafetensorsTest, RejectsDataThatDoNotFillTheFile) {
  const auto two = [](const std::string& first, const std::string& second, const std::string& data) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + first +
                       R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + second + "]}}",
                   data);
  };
  EXPECT_EQ(read(two("4,8", "0,4", "12345678")).tensors.size(), 2u);
  expect_rejected({"\"b\"", "byte 2", "ends at byte 4"}, two("0,4", "2,6", "12345678"));
  expect_rejected({"within the one that ends at byte 4"}, two("0,4", "0,4", "1234"));
  expect_rejected({"bytes 4 to 5", "no tensor"}, two("0,4", "5,9", "123456789"));
  expect_rejected({"bytes 0 to 1", "no tensor"}, two("1,5", "5,9", "123456789"));
  expect_rejected({"1 bytes follow"}, two("0,4", "4,8", "123456789"));
  expect_rejected({"\"b\"", "ends at byte 8", "which has 7"}, two("0,4", "4,8", "1234567"));
  expect_rejected({"begins at byte 8", "ends at byte 4"}, two("0,4", "8,4", "12345678"));
  expect_rejected({"begins at byte 18446744073709551612"}, two("0,4", "18446744073709551612,0", "1234"));
  expect_rejected({"18446744073709551611"}, two("0,4", "18446744073709551611,18446744073709551615", "1234"));
  expect_rejected({"3 bytes follow"}, file_of("{}", "123"));
}

TEST_F(SafetensorsTest, MessagesAreOneShortLine) {
  std::string name(10'000, 'x');
  name.replace(0, 8, "a\\n\\u0000");
  const auto message = [&](const std::string& bytes) {
    try {
      read(bytes);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string(1000, '\n');
  };
  const std::string text = message(file_of("{\"" + name + "\":1}", ""));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LT(text.size(), 400u);
}

// Every truncation is an error, and every changed byte of the header an error or another valid file.
TEST_F(SafetensorsTest, SurvivesTruncationAndBitFlips) {
  std::vector<float> x{1, 2, 3};
  std::vector<std::int64_t> step{4};
  write({leaf("params/x", x, {3}), leaf("step", step, {})}, {{"steps", "4"}});
  const std::string good = test::read_text(path());
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_error(ErrorCode::corrupt_data, {path()}, [&] { read(good.substr(0, size)); });
  }
  for (std::size_t byte = 0; byte < 8 + header_size(good); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      try {
        EXPECT_EQ(read(bad).tensors.size(), 2u);
      } catch (const Error& error) {
        const bool expected = error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::unsupported;
        EXPECT_TRUE(expected) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace giro
