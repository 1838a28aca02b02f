#include <giro/loop/data/npy.h>

#include <vector>

#include "loop/data/row_files.h"
#include "runtime/files/npy.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

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

}  // namespace

std::shared_ptr<const RowSource> npy(const Paths& paths, std::shared_ptr<FileSystem> files) {
  if (paths.empty()) throw_invalid("npy: no path, expected at least one file");
  return std::make_shared<const NpyRows>(paths, files);
}

}  // namespace giro::data
