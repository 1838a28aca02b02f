#include "tests/cuda_on_cpu/libraries/nccl_segment.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda_on_cpu/runtime/error.h"

namespace cuda_on_cpu {
namespace {

std::string path_of(const std::string& name) { return "/dev/shm/" + name; }

[[noreturn]] void fail_with_errno(const std::string& what) {
  fail(cudaErrorUnknown, fmt::format("NCCL: {}: {}", what, std::strerror(errno)));
}

// The names created here and the process that created each: a forked child inherits its parent's names and leaves them
// alone.
struct Created {
  std::vector<std::pair<pid_t, std::string>> names;
  ~Created() {
    for (const auto& [process, name] : names) {
      if (process == getpid()) unlink(path_of(name).c_str());
    }
  }
};

void make(const std::string& name, int flags) {
  static Created created;
  const int file = open(path_of(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
  if (file < 0 || ftruncate(file, sizeof(NcclSegment::Counters)) != 0) fail_with_errno("creating " + path_of(name));
  close(file);
  created.names.emplace_back(getpid(), name);
}

struct flock lock_of(int rank, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::string NcclSegment::create() {
  static int count = 0;
  const std::string name = fmt::format("cuda_on_cpu-nccl-{}-{}", getpid(), count++);
  make(name, O_EXCL);
  return name;
}

std::string NcclSegment::create_at(const std::string& address) {
  const std::string name = "cuda_on_cpu-nccl-at-" + address;
  if (name.find('/') != name.npos) fail(cudaErrorUnknown, fmt::format("NCCL: {} is not an address", address));
  make(name, 0);
  return name;
}

NcclSegment::NcclSegment(const std::string& name) : path_(path_of(name)) {
  file_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) fail_with_errno("no communicator starts with this unique id: " + path_);
  void* mapped = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) {
    close(file_);
    fail_with_errno("mapping " + path_);
  }
  counters_ = static_cast<Counters*>(mapped);
}

NcclSegment::~NcclSegment() {
  munmap(counters_, sizeof(Counters));
  close(file_);
}

// The lock belongs to the open file, not to the process: the system releases it when the last process with the file
// open ends.
void NcclSegment::hold_lock(int rank) {
  struct flock lock = lock_of(rank, F_WRLCK);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) fail_with_errno(fmt::format("another process is rank {}", rank));
}

bool NcclSegment::has_ended(int rank) const {
  struct flock lock = lock_of(rank, F_WRLCK);
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void NcclSegment::remove_name() { unlink(path_.c_str()); }

void NcclSegment::write(off_t place, const void* data, std::size_t bytes) {
  for (const auto* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t written = pwrite(file_, from, bytes, place);
    if (written <= 0) fail_with_errno("writing to " + path_);
    from += written;
    place += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void NcclSegment::read(off_t place, void* data, std::size_t bytes) const {
  for (auto* to = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = pread(file_, to, bytes, place);
    if (got <= 0) fail_with_errno("reading from " + path_);
    to += got;
    place += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace cuda_on_cpu
