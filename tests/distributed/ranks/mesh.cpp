#include <giro/distributed/mesh.h>

#include <gtest/gtest.h>

#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/support/expect_error.h"

namespace giro::test {
namespace {

// The ranks of a group.
std::vector<double> members(const Communicator& group) {
  const Stream stream(group.device());
  const Elements own(DType::i32, {}, stream), all(DType::i32, {group.size()}, stream);
  own.set({static_cast<double>(world().rank())});
  group.all_gather(all.tensor(), own.tensor(), stream);
  return all.get();
}

TEST(MeshOfRanks, AxesAreRowMajor) {
  const int size = world().size(), rank = world().rank();
  const int inner = size % 2 == 0 ? 2 : 1;
  const Mesh mesh(world(), test_device(), {{"data", -1}, {"model", inner}});
  EXPECT_EQ(mesh.axes(), (Mesh::Axes{{"data", size / inner}, {"model", inner}}));
  EXPECT_EQ(mesh.all().size(), size);
  EXPECT_EQ(mesh.axis("data").rank(), rank / inner);
  EXPECT_EQ(mesh.axis("model").rank(), rank % inner);
  std::vector<double> row, column;
  for (int other = 0; other < size; ++other) {
    if (other / inner == rank / inner) row.push_back(other);
    if (other % inner == rank % inner) column.push_back(other);
  }
  EXPECT_EQ(members(mesh.axis("model")), row);
  EXPECT_EQ(members(mesh.axis("data")), column);
}

TEST(MeshOfRanks, ErrorsNameTheAxes) {
  const auto expect = [](std::initializer_list<std::string> words, Mesh::Axes axes) {
    expect_error(ErrorCode::invalid_argument, words, [&] { Mesh(world(), test_device(), axes); });
  };
  expect({"Mesh {}", "one axis"}, {});
  expect({"Mesh {data: 5}", std::to_string(world().size()) + " ranks"}, {{"data", 5}});
  expect({"divisible by 7"}, {{"data", -1}, {"model", 7}});
  expect({"axis \"data\" appears twice"}, {{"data", -1}, {"data", 1}});
  expect({"no name"}, {{"", -1}});
  expect({"found 0"}, {{"data", 0}});
  expect({"only one"}, {{"data", -1}, {"model", -1}});
  expect({"ranks"}, {{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}, {"d", 1 << 30}});
  const Mesh mesh(world(), test_device(), {{"data", -1}});
  expect_error(ErrorCode::not_found, {"dat", "did you mean 'data'?"}, [&] { (void)mesh.axis("dat"); });
}

}  // namespace
}  // namespace giro::test
