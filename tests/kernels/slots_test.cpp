#include <giro/kernels/slots.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using Bytes = std::vector<std::uint8_t>;

class SlotsTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kSlots = 3, kBytes = 256;

  void prepare() override { call_ = tensor({}, DType::i64); }
  ByteRing ring() { return {tensor({kSlots, kBytes}, DType::u8), call_}; }
  void set_call(std::int64_t call) const { from_host(call_, std::vector{call}, stream()); }

  Tensor call_;
};
INSTANTIATE_TEST_SUITE_P(Devices, SlotsTest, test::kDevices, test::device_name);

// Sizes and addresses that need copies in units of 16, 4 and 1 bytes.
TEST_P(SlotsTest, EachCallHasItsSlot) {
  const ByteRing slots = ring();
  Bytes content(kSlots * kBytes);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::uint8_t>(i * 7 % 251);
  const Tensor bytes = tensor({kBytes}, DType::u8);
  for (const std::int64_t size : {0, 1, 3, 4, 16, 20, 64, 128}) {
    for (const std::int64_t shift : {0, 1, 4, 16}) {
      for (const std::int64_t offset : {0, 64, 128}) {
        for (const std::int64_t call : std::vector<std::int64_t>{0, 1, 2, 3, 7, 1'000'000'000'001}) {
          SCOPED_TRACE(testing::Message() << size << " bytes at " << shift << " and " << offset << ", call " << call);
          const auto first = static_cast<std::size_t>(call % kSlots * kBytes + offset);
          const Tensor part = bytes.rows(shift, shift + size);
          from_host(slots.slots, content, stream());
          set_call(call);
          read_slot(part, slots, offset, stream());
          const auto begin = content.begin() + static_cast<std::ptrdiff_t>(first);
          ASSERT_EQ(to_host<std::uint8_t>(part, stream()), Bytes(begin, begin + size));

          from_host(bytes, Bytes(kBytes, 255), stream());
          write_slot(slots, offset, part, stream());
          Bytes written = content;
          std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(first), size, std::uint8_t{255});
          ASSERT_EQ(to_host<std::uint8_t>(slots.slots, stream()), written);
        }
      }
    }
  }
}

TEST_P(SlotsTest, RecordingUsesAnotherSlotEachTime) {
  const Buffer pinned = Buffer::allocate(device(), kSlots * kBytes, MemoryKind::pinned);
  std::memset(pinned.data(), 0, pinned.size());
  const ByteRing slots{Tensor(pinned.data(), DType::u8, {kSlots, kBytes}, Device::cpu()), call_};
  const Tensor value = tensor({}, DType::i64);
  set_call(0);
  from_host(value, std::vector<std::int64_t>{10}, stream());
  const Graph graph = Graph::record(stream(), [&] {
    write_slot(slots, 64, value, stream());
    increment(value, 1, stream());
    increment(call_, 1, stream());
  });
  graph.replay(stream(), 5);
  stream().synchronize();
  std::int64_t found[kSlots];
  for (std::int64_t i = 0; i < kSlots; ++i) {
    std::memcpy(&found[i], static_cast<const char*>(pinned.data()) + i * kBytes + 64, sizeof found[i]);
  }
  EXPECT_EQ(found[0], 13);
  EXPECT_EQ(found[1], 14);
  EXPECT_EQ(found[2], 12);
}

TEST_P(SlotsTest, RejectsMismatchedArguments) {
  const ByteRing slots = ring();
  const Tensor x = tensor({kBytes}, DType::u8);
  expect_error(ErrorCode::invalid_argument, {"[64, 320)", "256"}, [&] { read_slot(x, slots, 64, stream()); });
  expect_error(ErrorCode::invalid_argument, {"64"}, [&] { write_slot(slots, 32, x.rows(0, 4), stream()); });
  expect_error(ErrorCode::shape_mismatch, {"(3, 60)", "64"}, [&] {
    read_slot(x, {tensor({3, 60}, DType::u8), call_}, 0, stream());
  });
  expect_error(ErrorCode::dtype_mismatch, {"f32"}, [&] { read_slot(x, {tensor({3, 64}), call_}, 0, stream()); });
  expect_device_error([&] { read_slot(elsewhere(x), slots, 0, stream()); });
  expect_device_error([&] { write_slot({slots.slots, elsewhere(call_)}, 0, x, stream()); });
}

}  // namespace
}  // namespace giro
