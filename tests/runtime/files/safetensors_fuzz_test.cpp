#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/safetensors.h>

#include "tests/support/address_space_limit.h"
#include "tests/support/damaged_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutator.h"
#include "tests/support/one_file.h"
#include "tests/support/sanitized.h"

namespace giro {
namespace {

struct Parts {
  std::string header, data;

  std::string file() const {
    const std::uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
  }
};

std::vector<Parts> valid_files() {
  return {{"{}", ""},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", "12345678"},
          {R"({"__metadata__":{"format":"pt","k\u00e9y":"\ud83d\ude00"},"w":{"dtype":"BF16","shape":[2,2],)"
           R"("data_offsets":[8,16]},"step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
           R"("none":{"dtype":"F64","shape":[3,0],"data_offsets":[16,16]},)"
           R"("flag":{"dtype":"BOOL","shape":[1],"data_offsets":[16,17]},)"
           R"("odd":{"data_offsets":[17,25],"dtype":"F64","shape":[1,1,1,1,1,1]}})",
           "0123456789abcdefghijklmno"}};
}

std::string bytes_of(const Tensor& tensor) {
  return tensor.bytes() == 0 ? std::string() : std::string(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

// Whatever was read can be written and read again.
void expect_sound(const Safetensors& file) {
  test::OneFile copy;
  write_safetensors(*copy.create("file"), file.tensors, file.metadata);
  const Safetensors again = read_safetensors(copy, "file");
  EXPECT_EQ(again.metadata, file.metadata);
  ASSERT_EQ(again.tensors.size(), file.tensors.size());
  std::map<std::string, Tensor> expected;
  for (const Leaf& leaf : file.tensors) expected.emplace(leaf.path, leaf.value);
  for (const Leaf& leaf : again.tensors) {
    ASSERT_TRUE(expected.contains(leaf.path));
    const Tensor& value = expected.at(leaf.path);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value.raw()) % size_of(value.dtype()), 0u);
    EXPECT_EQ(leaf.value.dtype(), value.dtype());
    EXPECT_EQ(leaf.value.shape(), value.shape());
    EXPECT_EQ(bytes_of(leaf.value), bytes_of(value));
  }
}

TEST(SafetensorsFuzzTest, DamagedFilesAreRejectedOrReadSafely) {
  const std::vector<Parts> valid = valid_files();
  std::vector<std::string> whole, headers;
  for (const Parts& parts : valid) {
    whole.push_back(parts.file());
    headers.push_back(parts.header);
  }

  test::Mutator mutated(1);
  test::expect_damage_is_found(
      [&] {
        Parts parts = valid[mutated.below(valid.size())];
        // A damaged header that keeps its right size is parsed.
        const bool within = mutated.below(4) > 0;
        if (within) parts.header = mutated(parts.header, headers);
        return within ? parts.file() : mutated(parts.file(), whole);
      },
      [](test::OneFile& file) { expect_sound(read_safetensors(file, "file")); });
}

// Tensors at unaligned offsets must not take twice their memory.
TEST(SafetensorsFuzzTest, UnalignedTensorsStayWithinTheLimit) {
  constexpr std::size_t kElements = std::size_t{10} << 20, kLarge = kElements * sizeof(double);
  Parts parts{R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[10485760],)"
              R"("data_offsets":[1,83886081]},"c":{"dtype":"F32","shape":[1],"data_offsets":[83886081,83886085]}})",
              "x"};
  std::vector<double> values(kElements);
  std::iota(values.begin(), values.end(), 0.5);
  parts.data.append(reinterpret_cast<const char*>(values.data()), kLarge);
  const float last = 2.5f;
  parts.data.append(reinterpret_cast<const char*>(&last), sizeof(last));
  test::OneFile file(parts.file());
  const test::AddressSpaceLimit limit(file.content.size() + (std::size_t{64} << 20));
  const Safetensors read = read_safetensors(file, "file");
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].value.data<std::uint8_t>()[0], 'x');
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.tensors[1].value.raw()) % alignof(double), 0u);
  EXPECT_EQ(std::memcmp(read.tensors[1].value.raw(), values.data(), kLarge), 0);
  EXPECT_EQ(read.tensors[2].value.data<float>()[0], last);
}

// The largest allowed number of names takes at most the file's size and 64 MiB of memory; one more is an error.
TEST(SafetensorsFuzzTest, ManyNamesStayWithinTheLimit) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes more memory than the limit";
  constexpr int kAllowed = 100'000;
  const auto file_of = [](int tensors, int metadata) {
    Parts parts{"{\"__metadata__\":{", ""};
    for (int i = 0; i < metadata; ++i) parts.header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
    parts.header += "}";
    for (int i = 0; i < tensors; ++i) {
      parts.header += ",\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0,0,0,0,0,0],"data_offsets":[0,0]})";
    }
    parts.header += "}";
    return test::OneFile(parts.file());
  };
  test::OneFile allowed = file_of(kAllowed, 0);
  {
    const test::AddressSpaceLimit limit(allowed.content.size() + (std::size_t{64} << 20));
    EXPECT_EQ(read_safetensors(allowed, "file").tensors.size(), std::size_t{kAllowed});
  }
  for (const int tensors : {0, 1}) {
    test::OneFile more = file_of(tensors, kAllowed + 1 - tensors);
    test::expect_error(ErrorCode::unsupported, {"more than 100000"}, [&] { read_safetensors(more, "file"); });
  }
  const std::vector<Leaf> leaves(kAllowed, {"a", Tensor(nullptr, DType::u8, {0}, Device::cpu())});
  test::OneFile written;
  test::expect_error(ErrorCode::invalid_argument, {"100001", "more than 100000"}, [&] {
    write_safetensors(*written.create("file"), leaves, {{"a", "b"}});
  });
}

}  // namespace
}  // namespace giro
