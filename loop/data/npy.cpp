// Rows that are read from files when a batch is made: of arrays in NumPy's format, and of tokens.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/npy.h>
#include <giro/loop/data/row_source.h>
#include <giro/loop/data/tokens.h>

#include "runtime/files/npy.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

// The rows of several files in sequence, for a RowSource. A file is opened when one of its rows is read, and at most
// kOpen files stay open. Rows are read into the batch by pread rather than mmap, so that a file that has become shorter
// is an error instead of a SIGBUS.
class RowFiles {
 public:
  static constexpr std::size_t kOpen = 64;

  // Rows of `row_bytes` bytes, each `stride_bytes` after the one before.
  RowFiles(std::shared_ptr<FileSystem> files, std::size_t row_bytes, std::uint64_t stride_bytes)
      : files_(std::move(files)), row_bytes_(row_bytes), stride_bytes_(stride_bytes) {}

  // Appends `rows` rows of a file, the first at byte `first`. Error(invalid_argument) if the total exceeds an i64.
  void add(std::string path, std::uint64_t first, std::int64_t rows) {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (rows > kMax - num_rows()) {
      throw_invalid("{}: {} rows after {} in the files before it, expected at most {}", path, rows, num_rows(),
                    kMax - num_rows());
    }
    if (rows > 0) parts_.push_back({std::move(path), first, num_rows() + rows});
  }
  std::int64_t num_rows() const { return parts_.empty() ? 0 : parts_.back().end_row; }

  // Reads the row into `to` and returns where it lies. Several threads may call it at once. Errors: not_found, io,
  // corrupt_data for a file that has become shorter.
  struct Location {
    const std::string& path;
    std::uint64_t byte;
  };
  Location read(std::int64_t row, void* to) const {
    const auto part = std::upper_bound(parts_.begin(), parts_.end(), row,
                                       [](std::int64_t number, const Part& p) { return number < p.end_row; });
    const std::int64_t before = part == parts_.begin() ? 0 : std::prev(part)->end_row;
    const Location location{part->path, part->first + static_cast<std::uint64_t>(row - before) * stride_bytes_};
    const Reader reader = reader_of(static_cast<std::size_t>(part - parts_.begin()));
    const std::size_t got = reader->read_at(location.byte, to, row_bytes_);
    if (got < row_bytes_) {
      throw_error(ErrorCode::corrupt_data, "{}: it ends at byte {}, but was longer when the dataset was created",
                  location.path, location.byte + got);
    }
    return location;
  }

 private:
  struct Part {
    std::string path;
    std::uint64_t first;
    std::int64_t end_row;  // one past its last row, counted over all files
  };
  using Reader = std::shared_ptr<const FileSystem::Reader>;

  // Opens outside the lock, so that no thread waits for a slow file that it does not need.
  Reader reader_of(std::size_t part) const {
    auto& [open_part, open] = open_[part % kOpen];
    {
      const std::lock_guard lock(mutex_);
      if (open && open_part == part) return open;
    }
    Reader reader = files_->open(parts_[part].path);
    const std::lock_guard lock(mutex_);
    open_part = part;
    open = reader;
    return reader;
  }

  std::shared_ptr<FileSystem> files_;
  std::size_t row_bytes_;
  std::uint64_t stride_bytes_;
  std::vector<Part> parts_;
  mutable std::mutex mutex_;
  mutable std::array<std::pair<std::size_t, Reader>, kOpen> open_;  // part p is open, if at all, at p % kOpen
};

class NpyRows final : public RowSource {
 public:
  NpyRows(const Paths& paths, const std::shared_ptr<FileSystem>& files)
      : NpyRows(paths, headers_of(paths, *files), files) {}

  std::int64_t num_rows() const override { return rows_.num_rows(); }
  DType dtype() const override { return dtype_; }
  Shape row_shape() const override { return row_shape_; }

  void read(std::span<const std::int64_t> rows, void* to) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) rows_.read(rows[i], static_cast<char*>(to) + i * row_bytes_);
  }

 private:
  NpyRows(const Paths& paths, const std::vector<detail::NpyFile>& headers, const std::shared_ptr<FileSystem>& files)
      : dtype_(headers.front().dtype),
        row_shape_(headers.front().shape.drop_front()),
        row_bytes_(static_cast<std::size_t>(row_shape_.count()) * size_of(dtype_)),
        rows_(files, row_bytes_, row_bytes_) {
    auto path = paths.begin();
    for (const detail::NpyFile& file : headers) {
      if (file.dtype != dtype_ || file.shape.drop_front() != row_shape_) {
        throw_error(ErrorCode::shape_mismatch, "{}: its rows are {}{}, expected {}{}, like those of {}", *path,
                    name_of(file.dtype), to_string(file.shape.drop_front()), name_of(dtype_), to_string(row_shape_),
                    paths.front());
      }
      rows_.add(*path++, file.elements, file.shape[0]);
    }
  }

  static std::vector<detail::NpyFile> headers_of(const Paths& paths, FileSystem& files) {
    std::vector<detail::NpyFile> headers;
    for (const std::string& path : paths) {
      headers.push_back(detail::read_npy_header(path, files));
      if (headers.back().shape.rank() > 0) continue;
      throw_error(ErrorCode::shape_mismatch, "{}: a scalar of shape (), expected rows", path);
    }
    return headers;
  }

  DType dtype_;
  Shape row_shape_;
  std::size_t row_bytes_;
  RowFiles rows_;
};

class Windows final : public RowSource {
 public:
  Windows(const Paths& paths, const TokenOptions& options)
      : width_(options.bytes_per_token),
        context_(options.context),
        stride_(options.stride == 0 ? options.context : options.stride),
        rows_(options.files, static_cast<std::size_t>(width_) * (static_cast<std::size_t>(context_) + 1),
              static_cast<std::uint64_t>(width_) * static_cast<std::uint64_t>(stride_)) {
    constexpr std::int64_t kMax = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
    const std::int64_t held = width_ == 1 ? 256 : width_ == 2 ? 65'536 : kMax;
    vocabulary_ = options.vocabulary == 0 ? held : options.vocabulary;
    if (width_ != 1 && width_ != 2 && width_ != 4)
      throw_invalid("tokens: {} bytes per token, expected 1, 2 or 4", width_);
    if (context_ < 1 || stride_ < 1) {
      throw_invalid("tokens: a context of {} and a stride of {}, expected at least 1", context_, stride_);
    }
    if (vocabulary_ < 1 || vocabulary_ > kMax) {
      throw_invalid("tokens: a vocabulary of {}, expected 1 to {}", vocabulary_, kMax);
    }
    if (!(options.begin >= 0 && options.begin < options.end && options.end <= 1)) {
      throw_invalid("tokens: the part from {} to {} of each file, expected 0 <= begin < end <= 1", options.begin,
                    options.end);
    }
    if (paths.empty()) throw_invalid("tokens: no path, expected at least one file");
    for (const std::string& path : paths) add(path, options);
    if (num_rows() == 0) {
      throw_invalid("tokens: {} {} fewer than {} tokens{}", paths.front(),
                    paths.size() == 1 ? "has" : fmt::format("and {} more have each", paths.size() - 1),
                    static_cast<std::uint64_t>(context_) + 1,
                    options.begin > 0 || options.end < 1 ? " in the requested part" : "");
    }
  }

  std::int64_t num_rows() const override { return rows_.num_rows(); }
  DType dtype() const override { return DType::i32; }
  Shape row_shape() const override { return {context_ + 1}; }

  void read(std::span<const std::int64_t> rows, void* to) const override {
    auto* out = static_cast<std::int32_t*>(to);
    for (const std::int64_t row : rows) {
      read(row, out);
      out += context_ + 1;
    }
  }

 private:
  void add(const std::string& path, const TokenOptions& options) {
    if (options.files->status(path).kind == FileSystem::Kind::directory) {
      throw_invalid("tokens: {} is a directory, expected a file", path);
    }
    const auto bytes = static_cast<std::int64_t>(options.files->open(path)->size());
    if (bytes % width_ != 0) {
      throw_error(ErrorCode::corrupt_data, "{}: {} bytes, expected a multiple of {}, the size of a token", path, bytes,
                  width_);
    }
    const auto share = [&](double part) {
      return static_cast<std::int64_t>(std::floor(part * static_cast<double>(bytes / width_)));
    };
    const std::int64_t first = share(options.begin), count = share(options.end) - first;
    const std::int64_t windows = count <= context_ ? 0 : (count - context_ - 1) / stride_ + 1;
    rows_.add(path, static_cast<std::uint64_t>(first * width_), windows);
  }

  void read(std::int64_t row, std::int32_t* out) const {
    const auto count = static_cast<std::size_t>(context_ + 1), width = static_cast<std::size_t>(width_);
    // The ids are read into the end of the row and widened in place from its beginning.
    auto* const raw = reinterpret_cast<unsigned char*>(out) + count * (sizeof *out - width);
    const RowFiles::Location location = rows_.read(row, raw);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t id = 0;
      for (std::size_t byte = 0; byte < width; ++byte) id |= std::uint32_t{raw[i * width + byte]} << (8 * byte);
      if (id >= vocabulary_) {
        throw_error(ErrorCode::corrupt_data, "{}: token {} is {}, expected an id below {}", location.path,
                    location.byte / width + i, id, vocabulary_);
      }
      out[i] = static_cast<std::int32_t>(id);
    }
  }

  int width_;
  std::int64_t context_, stride_, vocabulary_ = 0;
  RowFiles rows_;
};

}  // namespace

std::shared_ptr<const RowSource> npy(const Paths& paths, std::shared_ptr<FileSystem> files) {
  if (paths.empty()) throw_invalid("npy: no path, expected at least one file");
  return std::make_shared<const NpyRows>(paths, files);
}

Dataset tokens(const Paths& paths, const TokenOptions& options) {
  return Dataset({{"tokens", std::make_shared<const Windows>(paths, options)}});
}

}  // namespace giro::data
