#include <giro/loop/data/tokens.h>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/scope.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/row_source.h>
#include <giro/runtime/files/archive.h>

#include "tests/loop/data/counting_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"
#include "tests/support/one_file.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using data::tokens;
using test::expect_error;
using test::FakePartitioner;
using Ids = std::vector<std::int32_t>;

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument, kCorrupt = ErrorCode::corrupt_data;

std::string little_endian(const std::vector<std::int64_t>& ids, int width) {
  std::string bytes;
  for (const std::int64_t id : ids) {
    for (int byte = 0; byte < width; ++byte) bytes += static_cast<char>(id >> (8 * byte));
  }
  return bytes;
}

// `count` ids from `first` on.
std::string counting(std::int64_t first, std::int64_t count, int width = 2) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(first + i);
  return little_endian(ids, width);
}

std::vector<Ids> rows_of(const Batch& batch) {
  const nn::Var ids = batch["tokens"];
  std::vector<Ids> rows;
  for (std::int64_t r = 0; r < batch.size(); ++r) {
    const auto* const row = ids.data<std::int32_t>() + r * ids.shape()[1];
    rows.emplace_back(row, row + ids.shape()[1]);
  }
  return rows;
}

std::vector<Ids> windows_of(const Dataset& dataset, std::size_t batches = ~std::size_t{0}) {
  std::vector<Ids> all;
  for (const Batch& batch : dataset) {
    if (batches-- == 0) break;
    for (Ids& row : rows_of(batch)) all.push_back(std::move(row));
  }
  return all;
}

class TokensTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) { return folder_.write(name, content); }

  test::TemporaryDirectory folder_;
};

TEST_F(TokensTest, NeighbouringWindowsShareAToken) {
  for (const auto& [width, first] : {std::pair{1, 240}, {2, 65'520}, {4, 2'147'483'630}}) {
    const std::string path = file("ids", counting(first, 12, width));
    const Dataset dataset = tokens({path}, {.context = 3, .bytes_per_token = width});
    std::vector<Ids> expected{{0, 1, 2, 3}, {3, 4, 5, 6}, {6, 7, 8, 9}};
    for (Ids& row : expected) {
      for (std::int32_t& id : row) id += first;
    }
    EXPECT_EQ(windows_of(dataset), expected) << width;
    EXPECT_EQ(windows_of(dataset.batch(3)), expected) << width;
    const BatchSpec spec = dataset.batch(2).spec();
    ASSERT_EQ(spec.size(), 1u);
    EXPECT_EQ(std::tuple(spec[0].name, spec[0].dtype, spec[0].shape), std::tuple("tokens", DType::i32, Shape({2, 4})));
  }
}

TEST_F(TokensTest, StrideIsBetweenWindowStarts) {
  const std::string path = file("ids", counting(0, 10));
  EXPECT_EQ(windows_of(tokens({path}, {.context = 7, .stride = 1})),
            (std::vector<Ids>{{0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 3, 4, 5, 6, 7, 8, 9}}));
  EXPECT_EQ(windows_of(tokens({path}, {.context = 1, .stride = 8})), (std::vector<Ids>{{0, 1}, {8, 9}}));
  EXPECT_EQ(windows_of(tokens({path}, {.context = 9, .stride = 1'000})).size(), 1u);
}

TEST_F(TokensTest, NoWindowSpansTwoFiles) {
  const std::vector<std::string> paths{file("a", counting(0, 6)), file("none", ""), file("short", counting(50, 2)),
                                       file("b", counting(100, 5)), file("c", counting(200, 3))};
  EXPECT_EQ(windows_of(tokens(paths, {.context = 2})),
            (std::vector<Ids>{{0, 1, 2}, {2, 3, 4}, {100, 101, 102}, {102, 103, 104}, {200, 201, 202}}));
}

TEST_F(TokensTest, FilePartsShareNoToken) {
  for (const std::int64_t count : {7, 20, 99, 100, 101, 1'000}) {
    const std::string path = file("ids", counting(0, count));
    for (const double at : {0.3, 0.5, 0.95}) {
      const auto split = static_cast<std::int32_t>(at * static_cast<double>(count));
      const auto part = [&](double begin, double end) {
        std::vector<std::int32_t> ids;
        for (const Ids& row : windows_of(tokens({path}, {.context = 1, .begin = begin, .end = end}))) {
          ids.push_back(row[0]);
          EXPECT_EQ(row[1], row[0] + 1);
        }
        return std::pair(ids.front(), ids.back() + 1);  // the first and the last token
      };
      if (split >= 2) {
        EXPECT_EQ(part(0, at), std::pair(0, split - 1)) << count << " " << at;
      }
      if (count - split >= 2) {
        EXPECT_EQ(part(at, 1), std::pair(split, static_cast<std::int32_t>(count) - 1)) << count << " " << at;
      }
    }
  }
}

TEST_F(TokensTest, WindowsAreTheSameShuffledPrefetchedAndPartitioned) {
  const std::vector<std::string> paths{file("a", counting(0, 100)), file("b", counting(1'000, 61))};
  const Dataset dataset = tokens(paths, {.context = 4});
  const std::vector<Ids> in_order = windows_of(dataset);
  ASSERT_EQ(in_order.size(), 24u + 15u);

  const Dataset shuffled = dataset.shuffle(3).repeat(2).batch(6);
  const std::vector<Ids> drawn = windows_of(shuffled);
  std::vector<Ids> epoch(drawn.begin(), drawn.begin() + 39);
  EXPECT_NE(epoch, in_order);
  std::sort(epoch.begin(), epoch.end());
  EXPECT_EQ(epoch, in_order) << "each window once";
  for (const std::size_t depth : {1U, 2U, 100U}) EXPECT_EQ(windows_of(shuffled.prefetch(depth)), drawn);

  const auto part = [&](int rank) {
    return shuffled.partition(std::make_shared<FakePartitioner>(rank, 2)).prefetch(2);
  };
  auto second = part(1).begin();
  std::vector<Ids> together;
  for (const Batch& first : part(0)) {
    for (const Ids& row : rows_of(first)) together.push_back(row);
    for (const Ids& row : rows_of(*second)) together.push_back(row);
    ++second;
  }
  EXPECT_EQ(together, drawn);
}

TEST_F(TokensTest, ResumedRunContinuesInTheSameTokens) {
  const std::string path = file("ids", counting(0, 100));
  const auto dataset = [&](std::uint64_t seed = 1) {
    return tokens({path}, {.context = 4}).shuffle(seed).repeat().batch(5).prefetch(2);
  };
  std::vector<Ids> rest = windows_of(dataset(), 20);
  rest.erase(rest.begin(), rest.begin() + 7 * 5);
  std::vector<Ids> resumed;
  auto it = dataset().begin_at(7);
  for (int batch = 7; batch < 20; ++batch, ++it) {
    for (Ids& row : rows_of(*it)) resumed.push_back(std::move(row));
  }
  EXPECT_EQ(resumed, rest);

  Archive archive;
  dataset().persist(archive);
  const auto read = [text = archive.text()](const Dataset& other) {
    Archive saved = Archive::read(text);
    other.persist(saved);
  };
  read(dataset());
  expect_error(kInvalid, {"seed: found 2, expected 1"}, [&] { read(dataset(2)); });
  file("ids", counting(1, 100));
  expect_error(kInvalid, {"checksums: found tokens: "}, [&] { read(dataset()); });
  file("ids", counting(0, 96));
  expect_error(kInvalid, {"num_rows: found 23, expected 24"}, [&] { read(dataset()); });
}

TEST_F(TokensTest, LimitsOpenFiles) {
  const auto files = std::make_shared<test::CountingFiles>();
  std::vector<std::string> paths;
  for (int i = 0; i < 200; ++i) paths.push_back(file("ids" + std::to_string(i), counting(10 * i, 7)));
  const Dataset dataset = tokens(paths, {.context = 3, .files = files}).shuffle(2).batch(8).prefetch(2);
  EXPECT_EQ(files->open_now, 0);
  std::vector<Ids> all = windows_of(dataset);
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 400u);
  for (std::int32_t i = 0; i < 400; ++i) {
    const std::int32_t first = i / 2 * 10 + i % 2 * 3;
    EXPECT_EQ(all[static_cast<std::size_t>(i)], (Ids{first, first + 1, first + 2, first + 3}));
  }
  EXPECT_LE(files->max_open, 64 + 1) << "and one that is being opened";

  files->opened = 0;
  windows_of(tokens({paths[0], paths[1]}, {.context = 3, .files = files}).repeat(10).batch(2));
  EXPECT_EQ(files->opened, 2 + 2) << "once for its size, and once for all of its rows";
}

TEST_F(TokensTest, FilesOfAnotherFileSystem) {
  const auto files = std::make_shared<test::OneFile>(std::string("giro "), "text");
  EXPECT_EQ(windows_of(tokens({"text"}, {.context = 4, .bytes_per_token = 1, .files = files})),
            (std::vector<Ids>{{'g', 'i', 'r', 'o', ' '}}));
}

TEST_F(TokensTest, RejectsInvalidOptions) {
  const std::string path = file("ids", counting(0, 10));
  expect_error(kInvalid, {"tokens", "no path"}, [] { tokens({}); });
  for (const int width : {0, 3, 8, -1}) {
    expect_error(kInvalid, {"tokens", std::to_string(width) + " bytes per token", "1, 2 or 4"},
                 [&] { tokens({path}, {.bytes_per_token = width}); });
  }
  expect_error(kInvalid, {"context of 0", "at least 1"}, [&] { tokens({path}, {.context = 0}); });
  expect_error(kInvalid, {"stride of -1", "at least 1"}, [&] { tokens({path}, {.context = 4, .stride = -1}); });
  for (const std::int64_t vocabulary : {std::int64_t{-1}, (std::int64_t{1} << 31) + 1}) {
    expect_error(kInvalid, {"vocabulary of " + std::to_string(vocabulary), "2147483648"},
                 [&] { tokens({path}, {.vocabulary = vocabulary}); });
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [begin, end] :
       {std::pair{0.5, 0.5}, {0.6, 0.5}, {-0.1, 1.0}, {0.0, 1.1}, {kNan, 1.0}, {0.0, kNan}}) {
    expect_error(kInvalid, {"part from", "0 <= begin < end <= 1"},
                 [&, begin = begin, end = end] { tokens({path}, {.context = 4, .begin = begin, .end = end}); });
  }
}

TEST_F(TokensTest, RejectsFilesShorterThanAWindow) {
  const std::string path = file("ids", counting(0, 10)), empty = file("none", "");
  EXPECT_EQ(tokens({path}, {.context = 9}).num_rows(), 1);
  expect_error(kInvalid, {path, "fewer than 11 tokens"}, [&] { tokens({path}, {.context = 10}); });
  expect_error(kInvalid, {path, "1 more", "fewer than 11 tokens"}, [&] { tokens({path, empty}, {.context = 10}); });
  expect_error(kInvalid, {empty, "fewer than 2 tokens"}, [&] { tokens({empty}, {.context = 1}); });
  expect_error(kInvalid, {path, "in the requested part"}, [&] { tokens({path}, {.context = 6, .end = 0.5}); });
  expect_error(kInvalid, {path, "fewer than 9223372036854775808 tokens"},
               [&] { tokens({path}, {.context = std::numeric_limits<std::int64_t>::max()}); });
}

TEST_F(TokensTest, RejectsFilesThatAreNotTokens) {
  const std::string good = file("good", counting(0, 10));
  for (const int width : {2, 4}) {
    const std::string odd = file("odd", counting(0, 10, width) + "x");
    expect_error(kCorrupt, {odd, std::to_string(10 * width + 1) + " bytes", "multiple of " + std::to_string(width)},
                 [&] {
                   tokens({good, odd}, {.context = 4, .bytes_per_token = width});
                 });
  }
  expect_error(ErrorCode::not_found, {folder_ / "nowhere"}, [&] { tokens({good, folder_ / "nowhere"}); });
}

TEST_F(TokensTest, IdBeyondTheVocabularyIsReportedWithItsPosition) {
  const std::string good = file("good", counting(0, 9)), bad = file("bad", counting(0, 6) + counting(50, 1));
  const Dataset dataset = tokens({good, bad}, {.context = 2, .vocabulary = 50}).batch(2);
  auto it = dataset.begin();
  EXPECT_EQ(rows_of(*it)[1], (Ids{2, 3, 4}));
  ++it;
  ++it;
  expect_error(kCorrupt, {bad, "token 6 is 50", "below 50"}, [&] { ++it; });

  for (const auto& [width, id] : {std::pair{1, std::int64_t{255}}, {2, 65'535}, {4, std::int64_t{1} << 31}, {4, -1}}) {
    const std::string path = file("ids", little_endian({1, 2, id}, width));
    const std::int64_t vocabulary = width == 4 ? 0 : id;
    const std::int64_t seen = width == 4 ? static_cast<std::uint32_t>(id) : id;
    expect_error(kCorrupt, {path, "token 2 is " + std::to_string(seen)}, [&, width = width] {
      tokens({path}, {.context = 2, .bytes_per_token = width, .vocabulary = vocabulary}).begin();
    });
  }
}

TEST_F(TokensTest, TruncatedFileIsReportedWithItsEnd) {
  const std::string path = file("ids", counting(0, 100));
  const Dataset dataset = tokens({path}, {.context = 9}).batch(1);
  std::filesystem::resize_file(path, 2 * 15 + 1);
  auto it = dataset.begin();
  EXPECT_EQ(rows_of(*it)[0].back(), 9);
  expect_error(kCorrupt, {path, "ends at byte 31", "was longer when the dataset was created"}, [&] { ++it; });
  expect_error(kCorrupt, {path, "ends at byte 31"}, [&] {
    auto ahead = dataset.prefetch(2).begin();
    ++ahead;
  });
}

TEST_F(TokensTest, DatasetOnDiskHasNoRowsInMemory) {
  const Dataset dataset = tokens({file("ids", counting(0, 100))}, {.context = 9});
  expect_error(ErrorCode::unsupported, {"'tokens'", "not in memory"}, [&] { dataset.rows(); });
  expect_error(ErrorCode::unsupported, {"cannot be copied to cpu", "'tokens'", "not in memory"},
               [&] { dataset.batch(2).to(Device::cpu()); });
}

// A sparse file of 8 GiB: all ids are 0.
TEST_F(TokensTest, FilesMayBeLargerThanMemory) {
  const std::string path = file("zeros", "");
  std::filesystem::resize_file(path, std::uintmax_t{8} << 30);
  const Dataset dataset = tokens({path}, {.context = 1'024}).shuffle(0).repeat().batch(4).prefetch(2);
  EXPECT_EQ(dataset.num_rows(), ((std::int64_t{4} << 30) - 1) / 1'024);
  const auto loss_of = [](nn::Scope s, const Batch& batch) {
    const nn::Var table = s.param("embedding", {2, 4}, nn::normal(1));
    return mean(square(nn::embedding(batch["tokens"], table)));
  };
  auto state = TrainState::create(loss_of, optim::sgd(0.5), {.inputs = dataset.spec()});
  std::vector<float> losses;
  auto it = dataset.begin();
  for (int step = 0; step < 75; ++step, ++it) {
    const Batch& batch = *it;
    const nn::Var loss = state.value_and_grad([&](auto& params) { return loss_of(params, batch); });
    state.apply_gradients();
    losses.push_back(to_host<float>(loss.value(), state.stream())[0]);
  }
  EXPECT_LT(losses.back(), losses.front() / 2);
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1'000'000) << "kilobytes";
}

// The squares and cubes of the rows' numbers.
class Powers final : public RowSource {
 public:
  Powers(std::int64_t count, std::int64_t wrong) : count_(count), wrong_(wrong) {}

  std::int64_t num_rows() const override { return count_; }
  DType dtype() const override { return DType::f32; }
  Shape row_shape() const override { return {2}; }
  void read(std::span<const std::int64_t> rows, void* to) const override {
    auto* out = static_cast<float*>(to);
    for (const std::int64_t row : rows) {
      if (row == wrong_) throw Error(ErrorCode::io, "row " + std::to_string(row) + " cannot be read");
      *out++ = static_cast<float>(row * row);
      *out++ = static_cast<float>(row * row * row);
    }
  }

 private:
  std::int64_t count_, wrong_;
};

TEST(RowSource, UserDefinedSourceWorksBesideOtherFeatures) {
  const auto powers = [](std::int64_t count, std::int64_t wrong = -1) {
    return std::make_shared<const Powers>(count, wrong);
  };
  const Dataset dataset = Dataset({{"x", powers(20)}, {"y", powers(20)}}).shuffle(1).repeat().batch(6).prefetch(2);
  EXPECT_EQ(dataset.spec()[1].shape, Shape({6, 2}));
  std::int64_t number = 0;
  for (const Batch& batch : dataset) {
    if (number == 9) break;
    const std::vector<std::int64_t> rows = dataset.indices(number++);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (const char* name : {"x", "y"}) {
        EXPECT_EQ(batch[name].data<float>()[2 * r + 1], static_cast<float>(rows[r] * rows[r] * rows[r]));
      }
    }
  }
  using Sources = std::vector<std::pair<std::string, std::shared_ptr<const RowSource>>>;
  expect_error(ErrorCode::shape_mismatch, {"'y' has 3", "'x' has 4"}, [&] {
    Dataset(Sources{{"x", powers(4)}, {"y", powers(3)}});
  });
  expect_error(kInvalid, {"'x'"}, [] { Dataset(Sources{{"x", nullptr}}); });
  expect_error(ErrorCode::io, {"row 7 cannot be read"}, [&] {
    for (const Batch& batch : Dataset(Sources{{"x", powers(20, 7)}}).batch(4).prefetch(2)) EXPECT_EQ(batch.size(), 4);
  });
}

}  // namespace
}  // namespace giro
