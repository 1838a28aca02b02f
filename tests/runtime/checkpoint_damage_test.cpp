// Checkpoints that something has damaged, or made up.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <giro/runtime/checkpoint_store.h>

#include "runtime/internal/manifest.h"
#include "tests/expect_error.h"
#include "tests/power_loss_file_system.h"
#include "tests/runtime/sample_run.h"
#include "tests/sanitized.h"
#include "tests/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error, test::SampleRun;

const std::string kUnit = "/model/checkpoint_0000000002";

class CheckpointDamage : public testing::Test {
 protected:
  explicit CheckpointDamage(std::int64_t size = 6) : run_(size) {
    CheckpointStore store("/model", {.keep = 2, .files = files_});
    run_.save(store, {1, 0});
    lines_of_first_ = files_->content("/model/lines_0.jsonl").size();
    run_.save(store, {2, 0});
  }

  // Loads the older of the two, and says why the newer was passed over: in a line that names the file.
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
  // A manifest whose checksum fits, and the error that loading it is.
  void expect_refused(ErrorCode code, const std::string& words,
                      const std::function<void(detail::Manifest& manifest)>& change) {
    detail::Manifest manifest = detail::read_manifest(*files_, kUnit);
    change(manifest);
    expect_text_refused(code, words, detail::manifest_text(manifest));
  }
  void expect_text_refused(ErrorCode code, const std::string& words, const std::string& text) {
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
  for (int i = 0; i < test::cases(10'000); ++i)
    expect_flip_found(kUnit + "/state.safetensors", 1000 + random_() % (size - 1000));
}

TEST_F(CheckpointDamage, EveryTruncationIsFound) {
  for (const char* name : {"/checkpoint.json", "/state.safetensors", "/memory.safetensors"}) {
    ASSERT_LT(files_->content(kUnit + name).size(), 4096u);
    expect_truncations_found(kUnit + name);
  }
  expect_truncations_found("/model/lines_0.jsonl", lines_of_first_);
}

TEST_F(CheckpointDamage, WhatIsTooLongIsFound) {
  for (const char* name : {"/checkpoint.json", "/state.safetensors", "/memory.safetensors"}) {
    std::string& content = files_->content(kUnit + name);
    content += '\0';
    expect_found(name + 1, name);
    content.pop_back();
  }
  files_->content("/model/lines_0.jsonl") += "of a later checkpoint\n";
  EXPECT_EQ(load_checkpoint("/model", *files_).record.steps, 2);
}

TEST_F(CheckpointDamage, AMissingFileIsFound) {
  for (const char* name : {"/state.safetensors", "/memory.safetensors", "/checkpoint.json"}) {
    const std::string path = kUnit + name, aside = kUnit + "/aside";
    files_->rename(path, aside);
    expect_found(name + 1, path);
    files_->rename(aside, path);
  }
}

TEST_F(CheckpointDamage, WhereAllAreDamagedTheNewestsErrorComes) {
  files_->content("/model/lines_1.jsonl")[0] ^= 1;
  expect_error(ErrorCode::corrupt_data, {"lines_1.jsonl", "checksum"}, [&] { load_checkpoint("/model", *files_); });
  files_->content(kUnit + "/state.safetensors")[200] ^= 1;
  expect_error(ErrorCode::corrupt_data, {kUnit + "/state.safetensors", "checksum"},
               [&] { load_checkpoint("/model", *files_); });
}

TEST_F(CheckpointDamage, NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"../checkpoint_0000000001/state.safetensors", "/etc/passwd", "..", "", "other"}) {
    expect_refused(ErrorCode::corrupt_data, "files are not", [&](auto& manifest) { manifest.files[0].name = name; });
    expect_refused(ErrorCode::corrupt_data, "files are not", [&](auto& manifest) { manifest.files[1].name = name; });
    expect_refused(ErrorCode::corrupt_data, "expected 'lines_<number>.jsonl'",
                   [&](auto& manifest) { manifest.lines[0].name = name; });
  }
  for (const char* name : {"lines_00.jsonl", "lines_-1.jsonl", "lines_.jsonl", "lines_0.jsonl/../lines_0.jsonl"}) {
    expect_refused(ErrorCode::corrupt_data, "expected 'lines_<number>.jsonl'",
                   [&](auto& manifest) { manifest.lines[0].name = name; });
  }
}

TEST_F(CheckpointDamage, ManifestsThatContradictThemselvesOrTheFilesAreRefused) {
  using Manifest = detail::Manifest;
  const auto corrupt = [&](const std::string& words, const std::function<void(Manifest&)>& change) {
    expect_refused(ErrorCode::corrupt_data, words, change);
  };
  corrupt("files are not", [](Manifest& m) { m.files.clear(); });
  corrupt("files are not", [](Manifest& m) { m.files.push_back(m.files[0]); });
  corrupt("twice", [](Manifest& m) { m.lines.push_back(m.lines[0]); });
  corrupt("twice", [](Manifest& m) { m.lines[0].name = m.lines[1].name; });
  corrupt("bytes, expected", [](Manifest& m) { m.files[0].bytes = std::uint64_t{1} << 62; });
  corrupt("checksum", [](Manifest& m) { m.files[0].xxh3 = "0123456789abcdef"; });
  corrupt("bytes, expected", [](Manifest& m) { m.lines[0].bytes = std::uint64_t{1} << 62; });
  corrupt("lines, expected 7", [](Manifest& m) { m.lines[0].lines = 7; });
  corrupt("steps is -1", [](Manifest& m) { m.record.steps = -1; });
  corrupt("time is inf", [](Manifest& m) { m.record.time = INFINITY; });
}

TEST_F(CheckpointDamage, ManifestsThatAreNotWhatTheyShouldBeAreRefused) {
  const auto corrupt = [&](const std::string& words, const std::string& rest) {
    expect_text_refused(ErrorCode::corrupt_data, words, detail::with_checksum(rest));
  };
  corrupt("not JSON", "");
  corrupt("not JSON", "\"version\": 2");
  corrupt("not JSON", "\"version\": 1e999}");
  corrupt("no number 'version'", "\"version\": \"2\"}");
  corrupt("no version 1", "\"version\": 1}");
  corrupt("no object 'checkpoint'", "\"version\": 2}");
  corrupt("no object 'checkpoint'", "\"version\": 2, \"checkpoint\": []}");
  corrupt("steps is -1", "\"version\": 2, \"checkpoint\": {}, \"memory\": {}}");
  corrupt("'steps' is \"3\"", "\"version\": 2, \"checkpoint\": {\"steps\": \"3\"}, \"memory\": {}}");
  corrupt("nests too deep",
          "\"version\": 2, \"memory\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  corrupt("more than 4194304", std::string(4 << 20, ' '));
  expect_text_refused(ErrorCode::unsupported, "version 4 of the format, this giro knows up to version 3",
                      detail::with_checksum("\"version\": 4, \"what\": \"nobody knows\"}"));
}

TEST_F(CheckpointDamage, ANewerVersionIsAnErrorAndNotPassedOver) {
  files_->content(kUnit + "/checkpoint.json") = detail::with_checksum("\"version\": 4}");
  expect_error(ErrorCode::unsupported, {kUnit, "version 4", "version 3"}, [&] { load_checkpoint("/model", *files_); });
  std::vector<std::string> unreadable;
  const CheckpointStore store("/model", {.files = files_});
  EXPECT_EQ(store.all(&unreadable).size(), 1u);
  ASSERT_EQ(unreadable.size(), 1u);
  EXPECT_NE(unreadable[0].find("version 4"), std::string::npos);
}

TEST_F(CheckpointDamage, ACheckpointUnderAnothersNameIsFound) {
  files_->rename(kUnit, "/model/checkpoint_0000000007");
  expect_found("checkpoint_0000000007", "another's name");
}

TEST_F(CheckpointDamage, WhatCannotBeReadStays) {
  files_->content(kUnit + "/checkpoint.json")[40] ^= 1;
  CheckpointStore store("/model", {.keep = 1, .files = files_});
  run_.save(store, {3, 0});
  EXPECT_EQ(files_->list("/model"),
            (std::vector<std::string>{".lock", "checkpoint_0000000002", "checkpoint_0000000003", "lines_0.jsonl",
                                      "lines_1.jsonl", "lines_2.jsonl", "lines_3.jsonl"}));
  run_.save(store, {2, 1});  // until its place is taken
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
  // A checkpoint that is a link, and one with a file that is.
  fs::create_directory_symlink(other + "/checkpoint_0000000003", model + "/checkpoint_0000000003");
  fs::rename(model + "/checkpoint_0000000002/state.safetensors", dir / "aside");
  fs::create_symlink(dir / "aside", model + "/checkpoint_0000000002/state.safetensors");
  const LoadedCheckpoint loaded = store.load();
  EXPECT_EQ(loaded.record.steps, 1);
  ASSERT_EQ(loaded.skipped.size(), 2u);
  EXPECT_NE(loaded.skipped[0].find("not a directory"), std::string::npos) << loaded.skipped[0];
  EXPECT_NE(loaded.skipped[1].find("not a file"), std::string::npos) << loaded.skipped[1];
  // Taking its place and removing those leaves what they lead to.
  run.save(store, {3, 1});
  EXPECT_EQ(store.load().record.steps, 3);
  run.save(store, {1, 1});
  EXPECT_EQ(store.all().size(), 1u);
  EXPECT_EQ(elsewhere.load().record.steps, 3);
  EXPECT_TRUE(fs::exists(dir / "aside"));
  // A link to a directory of checkpoints, or that the caller names, is the caller's own.
  fs::create_directory_symlink(model, dir / "link");
  EXPECT_EQ(load_checkpoint(dir / "link").record.steps, 1);
}

}  // namespace
}  // namespace giro
