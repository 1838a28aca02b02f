#include <giro/runtime/files/file_system.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

TEST(FileSystem, WritesAndReads) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  std::string content(3'000'000, '\0');  // more than a chunk
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i >> 7);
  const auto writer = files->create(dir / "a");
  writer->write(content.data(), 1'234'567);
  writer->write(content.data() + 1'234'567, content.size() - 1'234'567);
  writer->write(nullptr, 0);
  writer->sync();
  writer->close();
  const std::vector<char> read = files->read(dir / "a");
  EXPECT_TRUE(std::equal(read.begin(), read.end(), content.begin(), content.end()));

  files->create(dir / "a")->close();
  EXPECT_TRUE(files->read(dir / "a").empty());
}

TEST(FileSystem, ReadsFilesOfUnknownSize) { EXPECT_FALSE(posix_file_system()->read("/proc/self/stat").empty()); }

TEST(FileSystem, ListsRenamesAndRemoves) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  files->create_directories(dir / "x/y/z");
  files->create_directories(dir / "x/y/z");
  for (const char* name : {"x/b", "x/a", "x/.c"}) test::write_text(dir / name, name);
  EXPECT_EQ(files->list(dir / "x"), (std::vector<std::string>{".c", "a", "b", "y"}));
  files->rename(dir / "x/a", dir / "x/b");
  files->remove(dir / "x/.c");
  files->sync_directory(dir / "x");
  EXPECT_EQ(files->list(dir / "x"), (std::vector<std::string>{"b", "y"}));
  EXPECT_EQ(test::read_text(dir / "x/b"), "x/a");
}

TEST(FileSystem, LockBelongsToItsProcessNotItsChildren) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  auto lock = files->lock(dir / "lock", "me");
  ASSERT_TRUE(lock);
  const auto fork_child = [&](bool lets_go, int end) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (lets_go) lock.reset();
    char byte = 0;
    (void)!::read(end, &byte, 1);
    ::_exit(0);
  };
  for (const bool lets_go : {true, false}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = fork_child(lets_go, ends[0]);
    if (lets_go) {
      ASSERT_EQ(::write(ends[1], "x", 1), 1);
      ASSERT_EQ(::waitpid(child, nullptr, 0), child);
      EXPECT_FALSE(files->lock(dir / "lock", "another"));
    } else {
      lock.reset();
      EXPECT_TRUE(files->lock(dir / "lock", "another"));
      ASSERT_EQ(::write(ends[1], "x", 1), 1);
      ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    }
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST(FileSystem, ReadsPieceByPiece) {
  const test::TemporaryDirectory dir;
  test::write_text(dir / "a", "abcdefg");
  const auto reader = posix_file_system()->open(dir / "a");
  EXPECT_EQ(reader->size(), 7u);
  std::string got(10, '-');
  EXPECT_EQ(reader->read(got.data(), 3), 3u);
  EXPECT_EQ(reader->read(got.data() + 3, 7), 4u);
  EXPECT_EQ(reader->read(got.data() + 7, 1), 0u);
  EXPECT_EQ(got, "abcdefg---");
}

TEST(FileSystem, ReportsTheKindOfAPath) {
  using Kind = FileSystem::Kind;
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  test::write_text(dir / "file", "abc");
  std::filesystem::create_symlink(dir / "file", dir / "link");
  const std::vector<std::pair<std::string, Kind>> expected{{"file", Kind::file},
                                                           {"", Kind::directory},
                                                           {"link", Kind::other},
                                                           {"gone", Kind::none},
                                                           {"file/below", Kind::none}};
  for (const auto& [name, kind] : expected) EXPECT_EQ(files->status(dir / name).kind, kind) << name;
  EXPECT_EQ(files->status(dir / "file").bytes, 3u);
}

TEST(FileSystem, RemovesEmptyDirectories) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  files->create_directories(dir / "a/b");
  expect_error(ErrorCode::io, {dir / "a", "not empty"}, [&] { files->remove(dir / "a"); });
  files->remove(dir / "a/b");
  files->remove(dir / "a");
  EXPECT_TRUE(files->list(dir.path()).empty());
}

TEST(FileSystem, LockHasOneHolder) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system(), others = posix_file_system();
  auto lock = files->lock(dir / "lock", "the first, with a long name");
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(others->lock(dir / "lock", "the second"), nullptr);
  EXPECT_EQ(test::read_text(dir / "lock"), "the first, with a long name");
  lock.reset();
  EXPECT_NE(others->lock(dir / "lock", "the second"), nullptr);
  EXPECT_EQ(test::read_text(dir / "lock"), "the second");
}

TEST(FileSystem, ReportsFreeSpace) {
  const test::TemporaryDirectory dir;
  EXPECT_GT(posix_file_system()->free_bytes(dir.path()), 0u);
  EXPECT_LE(posix_file_system()->free_bytes(dir.path()), std::filesystem::space(dir.path()).capacity);
  expect_error(ErrorCode::not_found, {dir / "gone"}, [&] { posix_file_system()->free_bytes(dir / "gone"); });
}

TEST(FileSystem, NamesThePathInErrors) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  const std::string gone = dir / "gone";
  test::write_text(dir / "file", "");
  expect_error(ErrorCode::not_found, {gone, "No such file"}, [&] { files->read(gone); });
  expect_error(ErrorCode::not_found, {gone}, [&] { files->list(gone); });
  expect_error(ErrorCode::not_found, {gone}, [&] { files->remove(gone); });
  expect_error(ErrorCode::not_found, {gone, "file"}, [&] { files->rename(gone, dir / "file"); });
  expect_error(ErrorCode::not_found, {gone}, [&] { files->sync_directory(gone); });
  expect_error(ErrorCode::not_found, {gone}, [&] { files->create(gone + "/a"); });
  expect_error(ErrorCode::io, {dir.path(), "directory"}, [&] { files->read(dir.path()); });
  expect_error(ErrorCode::io, {dir.path(), "directory"}, [&] { files->create(dir.path()); });
  expect_error(ErrorCode::io, {dir / "file"}, [&] { files->list(dir / "file"); });
  expect_error(ErrorCode::io, {dir / "file"}, [&] { files->create_directories(dir / "file/a"); });
}

TEST(FileSystem, FailedWriteIsAnError) {
  const test::TemporaryDirectory dir;
  const auto writer = posix_file_system()->create(dir / "file");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit two_bytes{2, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &two_bytes), 0);
  expect_error(ErrorCode::io, {dir / "file", "File too large"}, [&] { writer->write("abc", 3); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

// Opening a pipe would wait for its other end.
TEST(FileSystem, OpensNothingButRegularFiles) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  const std::string pipe = dir / "pipe", link = dir / "link", socket_path = dir / "socket";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, link);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket_path.size(), sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const std::string& path : {pipe, link, socket_path, dir.path(), std::string("/dev/null")}) {
    const auto refuses = [&](const auto& f) { expect_error(ErrorCode::io, {path}, f); };
    refuses([&] { files->open(path); });
    refuses([&] { files->create(path); });
    refuses([&] { files->append(path); });
    refuses([&] { files->lock(path, "holder"); });
  }
  expect_error(ErrorCode::io, {pipe, "not a regular file"}, [&] { files->read(pipe); });
  const int reader = ::open(pipe.c_str(), O_RDWR);  // a pipe with both ends open
  expect_error(ErrorCode::io, {pipe, "not a regular file"}, [&] { files->append(pipe); });
  ::close(reader);
  ::close(socket);
  EXPECT_FALSE(files->read("/proc/self/status").empty());
}

TEST(FileSystem, WriterNoticesThatItsFileIsGone) {
  const test::TemporaryDirectory dir;
  const auto files = posix_file_system();
  const std::string path = dir / "log", other = dir / "other";
  for (const bool replaced : {false, true}) {
    const auto writer = files->create(path);
    writer->write("abc", 3);
    writer->sync();
    files->rename(path, other);  // what is written is still there, under another name
    writer->sync();
    files->rename(other, path);
    if (replaced) {
      test::write_text(other, "");
      files->rename(other, path);
    } else {
      files->remove(path);
    }
    expect_error(ErrorCode::io, {path, "removed or replaced"}, [&] { writer->sync(); });
    expect_error(ErrorCode::io, {path, "removed or replaced"}, [&] { writer->write("d", 1); });
  }
}

TEST(ReplaceFile, IsDurableBeforeItReturns) {
  const test::TemporaryDirectory dir;
  test::FaultyFileSystem files;
  replace_file(files, dir / "model", "abc");
  const std::string temporary = "model.tmp-" + std::to_string(::getpid());
  EXPECT_EQ(files.calls,
            (std::vector<std::string>{"create " + temporary, "write " + temporary, "sync " + temporary,
                                      "close " + temporary, "rename model",
                                      "sync_directory " + std::filesystem::path(dir.path()).filename().string()}));
  EXPECT_EQ(test::read_text(dir / "model"), "abc");
}

TEST(ReplaceFile, HoldsTheOldOrTheNewWhicheverCallFails) {
  const std::string before(10'000, 'b'), after(20'000, 'a');
  for (const bool crash : {false, true}) {
    for (std::size_t call = 1; call <= 7; ++call) {
      const test::TemporaryDirectory dir;
      test::write_text(dir / "model", before);
      test::FaultyFileSystem files(call, crash);
      if (call <= 6) {
        expect_error(ErrorCode::io, {"injected"}, [&] { replace_file(files, dir / "model", after); });
      } else {
        replace_file(files, dir / "model", after);
      }
      EXPECT_EQ(test::read_text(dir / "model"), call <= 5 ? before : after) << "call " << call;
      const std::size_t left = crash && call > 1 && call <= 5 ? 2 : 1;  // a dead process leaves its temporary file
      EXPECT_EQ(posix_file_system()->list(dir.path()).size(), left) << "call " << call;
    }
  }
}

TEST(ReplaceFile, LeavesNothingIfTheWriterThrows) {
  const test::TemporaryDirectory dir;
  const auto write = [](FileSystem::Writer& writer) {
    writer.write("abc", 3);
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(replace_file(*posix_file_system(), dir / "model", write), std::runtime_error);
  EXPECT_TRUE(posix_file_system()->list(dir.path()).empty());
}

TEST(ReplaceFile, RespectsTheUmask) {
  const test::TemporaryDirectory dir;
  const mode_t before = ::umask(027);
  replace_file(*posix_file_system(), dir / "model", "abc");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((dir / "model").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(ReplaceFile, AcceptsANameWithoutADirectory) {
  const test::TemporaryDirectory dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  replace_file(*posix_file_system(), "model", "abc");
  std::filesystem::current_path(before);
  EXPECT_EQ(test::read_text(dir / "model"), "abc");
}

}  // namespace
}  // namespace giro
