// Damaged and forged checkpoints.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>

#include "runtime/files/manifest.h"
#include "runtime/files/stored_checkpoints.h"
#include "tests/runtime/sample_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/power_loss_file_system.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error, test::Moment, test::SampleRun;

const std::string kUnit = "/model/checkpoint_0000000002";

class CheckpointDamage : public testing::Test {
 protected:
  explicit CheckpointDamage(std::int64_t size = 6) : run_(size) {
    CheckpointStore store("/model", {.keep = 2, .files = files_});
    run_.save(store, {1, 0});
    lines_of_first_ = files_->content("/model/lines_0.jsonl").size();
    run_.save(store, {2, 0});
  }

  // Expects the older of the two to be loaded, with a line that says why the newer was skipped and names the file.
  void expect_found(const std::string& name, const std::string& what) {
    try {
      const LoadedCheckpoint loaded = load_checkpoint("/model", *files_);
      ASSERT_EQ(loaded.record.steps, 1) << what;
      ASSERT_EQ(loaded.skipped.size(), 1u) << what;
      ASSERT_NE(loaded.skipped[0].find(name), std::string::npos) << what << ": " << loaded.skipped[0];
    } catch (const Error& error) {
      FAIL() << what << ": " << error.what();
    }
  }
  void expect_flip_found(const std::string& path, std::size_t byte) {
    char& flipped = files_->content(path)[byte];
    const char before = flipped;
    flipped = static_cast<char>(flipped ^ (1 << random_() % 8));
    expect_found(std::filesystem::path(path).filename().string(), fmt::format("byte {} of '{}'", byte, path));
    flipped = before;
  }
  void expect_truncations_found(const std::string& path, std::size_t first = 0) {
    std::string& content = files_->content(path);
    const std::string before = content;
    for (std::size_t size = first; size < before.size(); size += test::kStride) {
      content.resize(size);
      expect_found(std::filesystem::path(path).filename().string(), fmt::format("{} bytes of '{}'", size, path));
      content = before;
    }
  }
  // Expects an error from loading a changed manifest with a matching checksum.
  void expect_rejected(ErrorCode code, const std::string& words,
                       const std::function<void(detail::Manifest& manifest)>& change) {
    detail::Manifest manifest = detail::read_manifest(*files_, kUnit);
    change(manifest);
    expect_text_rejected(code, words, detail::manifest_text(manifest));
  }
  void expect_text_rejected(ErrorCode code, const std::string& words, const std::string& text) {
    std::string& content = files_->content(kUnit + "/checkpoint.json");
    const std::string before = content;
    content = text;
    expect_error(code, {kUnit.substr(0, 6), words}, [&] { load_checkpoint(kUnit, *files_); });
    content = before;
  }

  std::shared_ptr<test::PowerLossFileSystem> files_ = std::make_shared<test::PowerLossFileSystem>();
  SampleRun run_;
  std::size_t lines_of_first_ = 0;
  std::mt19937 random_{7};
};

class LargeCheckpointDamage : public CheckpointDamage {
 protected:
  LargeCheckpointDamage() : CheckpointDamage(1 << 14) {}
};

TEST_F(CheckpointDamage, EveryFlippedBitIsFound) {
  for (const char* name : {"/checkpoint.json", "/state.safetensors", "/memory.safetensors"}) {
    const std::size_t size = files_->content(kUnit + name).size();
    ASSERT_GT(size, 100u);
    for (std::size_t byte = 0; byte < size; byte += test::kStride) expect_flip_found(kUnit + name, byte);
  }
  const std::size_t lines = files_->content("/model/lines_0.jsonl").size();
  ASSERT_GT(lines, lines_of_first_);
  for (std::size_t byte = lines_of_first_; byte < lines; byte += test::kStride)
    expect_flip_found("/model/lines_0.jsonl", byte);
}

TEST_F(LargeCheckpointDamage, FlippedBitsOfTheDataAreFound) {
  const std::size_t size = files_->content(kUnit + "/state.safetensors").size();
  ASSERT_GT(size, 1u << 16);
  for (int i = 0; i < (test::kSanitized ? 300 : 10'000); ++i)
    expect_flip_found(kUnit + "/state.safetensors", 1000 + random_() % (size - 1000));
}

TEST_F(CheckpointDamage, EveryTruncationIsFound) {
  for (const char* name : {"/checkpoint.json", "/state.safetensors", "/memory.safetensors"}) {
    ASSERT_LT(files_->content(kUnit + name).size(), 4096u);
    expect_truncations_found(kUnit + name);
  }
  expect_truncations_found("/model/lines_0.jsonl", lines_of_first_);
}

TEST_F(CheckpointDamage, TrailingBytesAreFound) {
  for (const char* name : {"/checkpoint.json", "/state.safetensors", "/memory.safetensors"}) {
    std::string& content = files_->content(kUnit + name);
    content += '\0';
    expect_found(name + 1, name);
    content.pop_back();
  }
  files_->content("/model/lines_0.jsonl") += "of a later checkpoint\n";
  EXPECT_EQ(load_checkpoint("/model", *files_).record.steps, 2);
}

TEST_F(CheckpointDamage, MissingFileIsFound) {
  for (const char* name : {"/state.safetensors", "/memory.safetensors", "/checkpoint.json"}) {
    const std::string path = kUnit + name, aside = kUnit + "/aside";
    files_->rename(path, aside);
    expect_found(name + 1, path);
    files_->rename(aside, path);
  }
}

TEST_F(CheckpointDamage, ReportsErrorOfTheNewestIfAllAreDamaged) {
  files_->content("/model/checkpoint_0000000001/checkpoint.json")[50] ^= 1;
  files_->content(kUnit + "/state.safetensors")[200] ^= 1;
  expect_error(ErrorCode::corrupt_data, {kUnit + "/state.safetensors", "checksum"},
               [&] { load_checkpoint("/model", *files_); });
}

// For three ways to load: the steps of the loaded checkpoint, 0 for an error, and the number of messages about skipped
// parts. `run` loads the directory, `state` its state alone, and `named` the newest checkpoint by its own name.
struct DamageCase {
  std::string file;
  bool all_use_it;  // both checkpoints use the damaged part, or else only the newest
  std::pair<std::int64_t, std::size_t> run, state, named;
};

TEST_F(CheckpointDamage, FlippedBitAffectsOnlyItsPart) {
  const std::string first = "/model/checkpoint_0000000001";
  const DamageCase cases[] = {
      {kUnit + "/checkpoint.json", false, {1, 1}, {1, 1}, {0, 0}},
      {kUnit + "/state.safetensors", false, {1, 1}, {1, 1}, {0, 0}},
      {kUnit + "/memory.safetensors", false, {1, 1}, {2, 1}, {0, 0}},
      {"/model/lines_0.jsonl", false, {1, 1}, {2, 1}, {2, 1}},
      {"/model/lines_1.jsonl", false, {1, 1}, {2, 1}, {2, 1}},
      {"/model/lines_0.jsonl", true, {2, 1}, {2, 1}, {2, 1}},
      {"/model/lines_1.jsonl", true, {2, 1}, {2, 1}, {2, 1}},
      {first + "/checkpoint.json", false, {2, 0}, {2, 0}, {2, 0}},
      {first + "/state.safetensors", false, {2, 0}, {2, 0}, {2, 0}},
      {first + "/memory.safetensors", false, {2, 0}, {2, 0}, {2, 0}},
  };
  const auto outcome = [&](auto&& load) -> std::pair<std::int64_t, std::size_t> {
    try {
      const LoadedCheckpoint loaded = load();
      return {loaded.record.steps, loaded.skipped.size()};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << error.what();
      return {0, 0};
    }
  };
  for (const DamageCase& damage : cases) {
    std::string& content = files_->content(damage.file);
    const bool is_lines = damage.file.find("lines") != damage.file.npos;
    std::size_t byte = 0, end = content.size();
    if (is_lines) {
      // Both checkpoints use the bytes that the first one saved; only the newer one uses the rest.
      const std::size_t of_first = detail::read_manifest(*files_, first).lines[damage.file[13] - '0'].bytes;
      damage.all_use_it ? end = of_first : byte = of_first;
    }
    ASSERT_LT(byte, end) << damage.file;
    for (; byte < end; byte += test::kStride) {
      const char before = content[byte];
      content[byte] = static_cast<char>(before ^ (1 << random_() % 8));
      const std::string what = fmt::format("byte {} of '{}'", byte, damage.file);
      EXPECT_EQ(outcome([&] { return load_checkpoint("/model", *files_); }), damage.run) << what;
      EXPECT_EQ(outcome([&] { return detail::load_checkpoint(*files_, "/model", {detail::Needed::state}); }),
                damage.state)
          << what;
      EXPECT_EQ(outcome([&] { return load_checkpoint(kUnit, *files_); }), damage.named) << what;
      content[byte] = before;
    }
  }
}

// An archive's lines from number `first` to `count`; each contains its number.
std::string numbered_lines(std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < count; ++i) text += fmt::format("[{},{:.6f}]\n", i, std::sin(static_cast<double>(i)));
  return text;
}

TEST_F(CheckpointDamage, DamagedLineAffectsItsNeighbours) {
  constexpr std::size_t kSaves = 30, kLinesEach = 150;
  std::optional<CheckpointStore> store(std::in_place, "/large", CheckpointStoreOptions{.files = files_});
  for (std::size_t save = 1; save <= kSaves; ++save) {
    Archive archive = store->archive();
    const std::size_t count = save * kLinesEach;
    archive.lines(
        "numbers", count, [&](std::size_t first) { return numbered_lines(first, count); }, nullptr);
    store->save(*run_.snapshot_at({1, 0}), SampleRun::record({static_cast<std::int64_t>(save), 0}), std::move(archive));
  }
  constexpr std::size_t kLines = kSaves * kLinesEach;
  store.reset();
  const auto read = [&](LoadedCheckpoint& loaded) {
    std::string text = "nothing";
    loaded.archive.lines("numbers", 0, nullptr, [&](std::string_view found) { text = found; });
    return text;
  };
  LoadedCheckpoint whole = load_checkpoint("/large", *files_);
  ASSERT_EQ(read(whole), numbered_lines(0, kLines));
  std::string& content = files_->content("/large/lines_0.jsonl");
  ASSERT_GT(content.size(), 65'000u);
  const auto expect_most_left = [&](const std::string& what) {
    LoadedCheckpoint loaded = load_checkpoint("/large", *files_);
    ASSERT_EQ(loaded.skipped.size(), 1u) << what;
    const std::string left = read(loaded);
    std::set<std::string_view> right;
    const std::string all = numbered_lines(0, kLines);
    for (std::size_t at = 0, end; at < all.size(); at = end)
      right.insert(std::string_view(all).substr(at, (end = all.find('\n', at) + 1) - at));
    std::size_t lines = 0;
    for (std::size_t at = 0, end; at < left.size(); at = end, ++lines) {
      const std::string_view line = std::string_view(left).substr(at, (end = left.find('\n', at) + 1) - at);
      ASSERT_TRUE(right.contains(line)) << what << ": " << line;
    }
    EXPECT_GT(lines, kLines - kLines / 30) << what;
    EXPECT_NE(loaded.skipped[0].find(fmt::format("{} of its {} lines are left", lines, kLines)), std::string::npos)
        << loaded.skipped[0];
  };
  for (std::size_t byte = 0; byte < content.size(); byte += content.size() / 30) {
    content[byte] ^= 1;
    expect_most_left(fmt::format("byte {}", byte));
    content[byte] ^= 1;
  }
  content.resize(content.size() - 100);
  expect_most_left("the end is missing");
  // The store's next save is complete.
  CheckpointStore next("/large", {.files = files_});
  Archive archive = next.archive();
  archive.lines(
      "numbers", 3, [](std::size_t first) { return numbered_lines(first, 3); }, nullptr);
  next.save(*run_.snapshot_at({1, 0}), SampleRun::record({kSaves + 1, 0}), std::move(archive));
  EXPECT_TRUE(load_checkpoint("/large", *files_).skipped.empty());
}

// A copy with its lines, without them, and next to another directory's lines.
TEST_F(CheckpointDamage, CopyIsLoadedByName) {
  const auto copy = [&](const std::string& name, const std::string& to) {
    const std::string content = files_->content(name);
    const auto writer = files_->create(to);
    writer->write(content.data(), content.size());
  };
  files_->create_directories("/copy/checkpoint_0000000002");
  for (const std::string& name : files_->list(kUnit)) copy(kUnit + "/" + name, "/copy/checkpoint_0000000002/" + name);
  for (const char* path : {"/copy/checkpoint_0000000002", "/copy/checkpoint_0000000002/", "/copy"}) {
    LoadedCheckpoint alone = load_checkpoint(path, *files_);
    EXPECT_EQ(alone.record.steps, 2) << path;
    ASSERT_EQ(alone.skipped.size(), 2u) << path;
    EXPECT_NE(alone.skipped[0].find("there is no '/copy/lines_"), std::string::npos) << alone.skipped[0];
  }
  for (const char* name : {"/lines_0.jsonl", "/lines_1.jsonl"}) {
    const auto writer = files_->create("/copy" + std::string(name));
    writer->write("[1]\n", 4);
  }
  for (const char* path : {"/copy/checkpoint_0000000002", "/copy"}) {
    EXPECT_EQ(load_checkpoint(path, *files_).skipped.size(), 2u) << path;
  }
  for (const char* name : {"/lines_0.jsonl", "/lines_1.jsonl"})
    copy("/model" + std::string(name), "/copy" + std::string(name));
  for (const char* path : {"/copy/checkpoint_0000000002", "/copy"}) {
    LoadedCheckpoint loaded = load_checkpoint(path, *files_);
    EXPECT_TRUE(loaded.skipped.empty()) << path;
    EXPECT_EQ(SampleRun::moment_of(loaded), (Moment{2, 0})) << path;
  }
}

// Older manifests have no parts.
TEST_F(CheckpointDamage, LinesWithoutPartsAreLostTogether) {
  for (const char* unit : {"/model/checkpoint_0000000001", "/model/checkpoint_0000000002"}) {
    detail::Manifest manifest = detail::read_manifest(*files_, unit);
    for (auto& lines : manifest.lines) lines.parts.clear();
    files_->content(std::string(unit) + "/checkpoint.json") = detail::manifest_text(manifest);
  }
  LoadedCheckpoint whole = load_checkpoint("/model", *files_);
  EXPECT_TRUE(whole.skipped.empty());
  EXPECT_EQ(SampleRun::moment_of(whole), (Moment{2, 0}));
  files_->content("/model/lines_1.jsonl")[0] ^= 1;
  const LoadedCheckpoint loaded = load_checkpoint("/model", *files_);
  EXPECT_EQ(loaded.record.steps, 2);
  ASSERT_EQ(loaded.skipped.size(), 1u);
  EXPECT_NE(loaded.skipped[0].find("0 of its 2 lines are left"), std::string::npos) << loaded.skipped[0];
}

TEST_F(CheckpointDamage, NamesOutsideTheDirectoryAreRejected) {
  for (const char* name : {"../checkpoint_0000000001/state.safetensors", "/etc/passwd", "..", "", "other"}) {
    expect_rejected(ErrorCode::corrupt_data, "files are not", [&](auto& manifest) { manifest.files[0].name = name; });
    expect_rejected(ErrorCode::corrupt_data, "files are not", [&](auto& manifest) { manifest.files[1].name = name; });
    expect_rejected(ErrorCode::corrupt_data, "expected 'lines_<number>.jsonl'",
                    [&](auto& manifest) { manifest.lines[0].name = name; });
  }
  for (const char* name : {"lines_00.jsonl", "lines_-1.jsonl", "lines_.jsonl", "lines_0.jsonl/../lines_0.jsonl"}) {
    expect_rejected(ErrorCode::corrupt_data, "expected 'lines_<number>.jsonl'",
                    [&](auto& manifest) { manifest.lines[0].name = name; });
  }
}

TEST_F(CheckpointDamage, ContradictoryManifestsAreRejected) {
  using Manifest = detail::Manifest;
  const auto corrupt = [&](const std::string& words, const std::function<void(Manifest&)>& change) {
    expect_rejected(ErrorCode::corrupt_data, words, change);
  };
  corrupt("files are not", [](Manifest& m) { m.files.clear(); });
  corrupt("files are not", [](Manifest& m) { m.files.push_back(m.files[0]); });
  corrupt("twice", [](Manifest& m) { m.lines.push_back(m.lines[0]); });
  corrupt("twice", [](Manifest& m) { m.lines[0].name = m.lines[1].name; });
  corrupt("bytes, expected", [](Manifest& m) { m.files[0].bytes = std::uint64_t{1} << 62; });
  corrupt("checksum", [](Manifest& m) { m.files[0].xxh3 = "0123456789abcdef"; });
  // Wrong entries about lines only cost those lines.
  const auto skipped = [&](const std::string& words, const std::function<void(Manifest&)>& change) {
    std::string& content = files_->content(kUnit + "/checkpoint.json");
    const std::string before = content;
    Manifest manifest = detail::read_manifest(*files_, kUnit);
    change(manifest);
    content = detail::manifest_text(manifest);
    const LoadedCheckpoint loaded = load_checkpoint(kUnit, *files_);
    ASSERT_EQ(loaded.skipped.size(), 1u);
    EXPECT_NE(loaded.skipped[0].find(words), std::string::npos) << loaded.skipped[0];
    content = before;
  };
  skipped("bytes, expected", [](Manifest& m) { m.lines[0].bytes = std::uint64_t{1} << 62; });
  skipped("lines, expected 7", [](Manifest& m) { m.lines[0].lines = 7; });
  skipped("0 of its 2 lines are left", [](Manifest& m) {
    m.lines[0].xxh3 = "0123456789abcdef";
    m.lines[0].parts[0].bytes = ~std::uint64_t{0};
  });
  corrupt("steps is -1", [](Manifest& m) { m.record.steps = -1; });
  corrupt("time is inf", [](Manifest& m) { m.record.time = INFINITY; });
}

TEST_F(CheckpointDamage, MalformedManifestsAreRejected) {
  const auto corrupt = [&](const std::string& words, const std::string& rest) {
    expect_text_rejected(ErrorCode::corrupt_data, words, detail::with_checksum(rest));
  };
  corrupt("not valid JSON", "");
  corrupt("not valid JSON", "\"version\": 2");
  corrupt("not valid JSON", "\"version\": 1e999}");
  corrupt("no number 'version'", "\"version\": \"2\"}");
  corrupt("no format version 1", "\"version\": 1}");
  corrupt("no object 'checkpoint'", "\"version\": 2}");
  corrupt("no object 'checkpoint'", "\"version\": 2, \"checkpoint\": []}");
  corrupt("steps is -1", "\"version\": 2, \"checkpoint\": {}, \"memory\": {}}");
  corrupt("'steps' is \"3\"", "\"version\": 2, \"checkpoint\": {\"steps\": \"3\"}, \"memory\": {}}");
  corrupt("nested too deeply",
          "\"version\": 2, \"memory\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  corrupt("more than 4194304", std::string(4 << 20, ' '));
  expect_text_rejected(ErrorCode::unsupported, "format version 4, but this giro supports only versions up to 3",
                       detail::with_checksum("\"version\": 4, \"what\": \"nobody knows\"}"));
}

TEST_F(CheckpointDamage, NewerVersionIsAnErrorAndNotSkipped) {
  files_->content(kUnit + "/checkpoint.json") = detail::with_checksum("\"version\": 4}");
  expect_error(ErrorCode::unsupported, {kUnit, "version 4", "versions up to 3"},
               [&] { load_checkpoint("/model", *files_); });
  std::vector<std::string> unreadable;
  const CheckpointStore store("/model", {.files = files_});
  EXPECT_EQ(store.all(&unreadable).size(), 1u);
  ASSERT_EQ(unreadable.size(), 1u);
  EXPECT_NE(unreadable[0].find("version 4"), std::string::npos);
}

TEST_F(CheckpointDamage, MisnamedCheckpointIsFound) {
  files_->rename(kUnit, "/model/checkpoint_0000000007");
  expect_found("checkpoint_0000000007", "another's name");
}

TEST_F(CheckpointDamage, UnreadableCheckpointsAreKept) {
  files_->content(kUnit + "/checkpoint.json")[40] ^= 1;
  CheckpointStore store("/model", {.keep = 1, .files = files_});
  run_.save(store, {3, 0});
  EXPECT_EQ(files_->list("/model"),
            (std::vector<std::string>{".lock", "checkpoint_0000000002", "checkpoint_0000000003", "lines_0.jsonl",
                                      "lines_1.jsonl", "lines_2.jsonl", "lines_3.jsonl"}));
  run_.save(store, {2, 1});  // stays until another checkpoint replaces it
  EXPECT_EQ(files_->list("/model").size(), 4u);
  EXPECT_EQ(store.load().record.steps, 2);
}

TEST(CheckpointLinks, SymbolicLinksAreNotFollowed) {
  const test::TemporaryDirectory dir;
  namespace fs = std::filesystem;
  SampleRun run;
  const std::string model = dir / "model", other = dir / "other";
  CheckpointStore store(model, {.keep = 3}), elsewhere(other);
  run.save(store, {1, 0});
  run.save(store, {2, 0});
  run.save(elsewhere, {3, 0});
  // One checkpoint is a link; another contains a file that is a link.
  fs::create_directory_symlink(other + "/checkpoint_0000000003", model + "/checkpoint_0000000003");
  fs::rename(model + "/checkpoint_0000000002/state.safetensors", dir / "aside");
  fs::create_symlink(dir / "aside", model + "/checkpoint_0000000002/state.safetensors");
  const LoadedCheckpoint loaded = store.load();
  EXPECT_EQ(loaded.record.steps, 1);
  ASSERT_EQ(loaded.skipped.size(), 2u);
  EXPECT_NE(loaded.skipped[0].find("not a directory"), std::string::npos) << loaded.skipped[0];
  EXPECT_NE(loaded.skipped[1].find("not a file"), std::string::npos) << loaded.skipped[1];
  // Replacing or removing the links leaves their targets untouched.
  run.save(store, {3, 1});
  EXPECT_EQ(store.load().record.steps, 3);
  run.save(store, {1, 1});
  EXPECT_EQ(store.all().size(), 1u);
  EXPECT_EQ(elsewhere.load().record.steps, 3);
  EXPECT_TRUE(fs::exists(dir / "aside"));
  // A link is followed if the path that the user gives names it or goes through it.
  fs::create_directory_symlink(model, dir / "link");
  EXPECT_EQ(load_checkpoint(dir / "link").record.steps, 1);
}

}  // namespace
}  // namespace giro
