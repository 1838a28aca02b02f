#include <fmt/format.h>

#include <string>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/runtime/files/file_system.h>

#include "loop/log/history_records.h"
#include "loop/log/record_text.h"
#include "runtime/files/npy.h"
#include "runtime/text.h"

namespace giro {
namespace {

using detail::append_csv, detail::append_json, detail::csv_cell, detail::csv_column;

// Writes the text `begin`, then a line for each record: what append(text, record) adds.
template <class F>
void write_lines(const History& history, const std::string& path, FileSystem& files, const std::string& begin,
                 F&& append) {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  replace_file(files, path, [&](FileSystem::Writer& writer) {
    std::string text = begin;
    const auto write = [&] {
      writer.write(text.data(), text.size());
      text.clear();
    };
    const auto end = history.end();
    for (auto it = history.begin(); it != end; ++it) {
      append(text, it);
      text += '\n';
      if (text.size() >= kBytes) write();
    }
    write();
  });
}

}  // namespace

void History::write_csv(const std::string& path, FileSystem& files) const {
  const Records& all = records();
  std::string header(detail::kCsvElapsed);
  for (std::size_t column = 0; column < all.names.size(); ++column) {
    header.append(1, ',').append(csv_cell(csv_column(all.names[column].collection, all.names[column].name)));
  }
  write_lines(*this, path, files, header + '\n', [&](std::string& text, const Iterator& it) {
    append_csv(text, it.elapsed());
    for (std::size_t column = 0; column < all.columns.size(); ++column) {
      text += ',';
      if (all.layouts[it.layout()].has(column)) append_csv(text, it.value(column));
    }
  });
}

void History::write_jsonl(const std::string& path, FileSystem& files) const {
  const Records& all = records();
  struct Field {
    std::string before;  // the text before the number
    std::size_t column;
  };
  // The fields of a layout's records, by collection.
  const auto fields_of = [&](const Records::Layout& layout) {
    std::vector<Field> fields;
    std::vector<bool> done(all.columns.size());
    for (std::size_t first : layout.columns) {
      if (done[first]) continue;
      const std::string& collection = all.names[first].collection;
      std::string before = fmt::format("{}{}:{{", fields.empty() ? "," : "},", json_string(collection));
      for (std::size_t column : layout.columns) {
        if (all.names[column].collection != collection) continue;
        fields.push_back({before + json_string(all.names[column].name) + ":", column});
        done[column] = true;
        before.assign(1, ',');
      }
    }
    return fields;
  };
  std::vector<std::vector<Field>> fields;
  for (const Records::Layout& layout : all.layouts) fields.push_back(fields_of(layout));

  write_lines(*this, path, files, "", [&](std::string& text, const Iterator& it) {
    append_json(text, it.elapsed());
    const std::vector<Field>& of_record = fields[it.layout()];
    for (const Field& field : of_record) {
      text += field.before;
      append_json(text, it.value(field.column));
    }
    text += of_record.empty() ? "}" : "}}";
  });
}

void History::write_npy(std::string_view key, const std::string& path, FileSystem& files) const {
  const std::vector<double> values = collect(key).front();
  const std::string header = detail::npy_header(DType::f64, {static_cast<std::int64_t>(values.size())});
  replace_file(files, path, [&](FileSystem::Writer& writer) {
    writer.write(header.data(), header.size());
    writer.write(values.data(), values.size() * sizeof(double));
  });
}

}  // namespace giro
