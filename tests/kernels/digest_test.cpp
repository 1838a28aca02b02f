
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using Bytes = std::vector<std::uint8_t>;

class DigestTest : public test::OpTest {
 protected:
  std::uint64_t digest_of(const Bytes& bytes) {
    const Tensor on_device = tensor({static_cast<std::int64_t>(bytes.size())}, DType::u8), out = tensor({}, DType::i64);
    from_host(on_device, bytes, stream());
    digest(out, on_device, stream());
    return static_cast<std::uint64_t>(to_host<std::int64_t>(out, stream()).front());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DigestTest, test::kDevices, test::device_name);

Bytes random_bytes(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

// A zero word at position n contributes SplitMix64's output number n from a state of 0.
TEST_P(DigestTest, IsASumOfSplitMix64) {
  EXPECT_EQ(digest_of(Bytes(8)), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(digest_of(Bytes(16)), 0xE220A8397B1DCDAFu + 0x6E789E6AA1B965F4u);
  EXPECT_EQ(digest_of({}), 0u);
}

TEST_P(DigestTest, MatchesTheReferenceAtAnySize) {
  for (const std::size_t words : {1, 3, 255, 256, 4096, 4097, 100'000}) {
    const Bytes bytes = random_bytes(8 * words);
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < words; ++i) {
      std::uint64_t z = 0;
      std::memcpy(&z, bytes.data() + 8 * i, 8);
      z += (i + 1) * 0x9E3779B97F4A7C15u;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      expected += z ^ (z >> 31);
    }
    EXPECT_EQ(digest_of(bytes), expected) << words << " words";
  }
}

TEST_P(DigestTest, EveryBitAndPositionCounts) {
  const Bytes bytes = random_bytes(128);
  std::set<std::uint64_t> digests{digest_of(bytes)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes other = bytes;
    other[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_TRUE(digests.insert(digest_of(other)).second) << "bit " << bit;
  }
  Bytes swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 8);
  EXPECT_TRUE(digests.insert(digest_of(swapped)).second);
}

TEST_P(DigestTest, Errors) {
  const Tensor bytes = tensor({64}, DType::u8), out = tensor({}, DType::i64);
  using test::expect_error;
  expect_error(ErrorCode::dtype_mismatch, {"digest", "f32"}, [&] { digest(tensor({}, DType::f32), bytes, stream()); });
  expect_error(ErrorCode::dtype_mismatch, {"bytes", "i64"}, [&] { digest(out, tensor({8}, DType::i64), stream()); });
  expect_error(ErrorCode::shape_mismatch, {"digest", "(2,)"},
               [&] { digest(tensor({2}, DType::i64), bytes, stream()); });
  expect_error(ErrorCode::invalid_argument, {"8-byte words"}, [&] { digest(out, bytes.rows(0, 12), stream()); });
  expect_error(ErrorCode::invalid_argument, {"8-byte words"}, [&] { digest(out, bytes.rows(4, 12), stream()); });
}

}  // namespace
}  // namespace giro
