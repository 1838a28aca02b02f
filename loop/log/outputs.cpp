#include <giro/loop/log/outputs.h>

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include <giro/runtime/buffer.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

struct Found {
  const Outputs::Record* record;
  HostArray array;
};

std::vector<Found> find(const Outputs& outputs, std::string_view name) {
  std::vector<Found> found;
  for (const Outputs::Record& record : outputs) {
    if (record.logs.schema().find("outputs", name)) found.push_back({&record, record.logs.output(name)});
  }
  if (found.empty()) {
    std::set<std::string> known;
    for (const Outputs::Record& record : outputs) {
      for (const Logs::Entry& entry : record.logs.entries()) known.insert(entry.name);
    }
    throw_error(ErrorCode::not_found, "there is no output '{}'{}", name,
                known.empty() ? ": none is kept" : suggestion(name, {known.begin(), known.end()}));
  }
  return found;
}

// The shape of the rows in an array; a number is one row.
Shape rows_shape(const HostArray& array) { return array.shape().rank() == 0 ? Shape{1} : array.shape(); }

}  // namespace

void Outputs::commit(const Elapsed& elapsed, const Logs& logs) {
  Logs outputs;
  for (std::size_t i = 0; i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    if (entry.collection != "outputs") continue;
    LogValue value = entry.value;
    // Device memory belongs to the step, which will reuse it.
    if (const nn::Var* var = value.scalar()) value = HostArray::copy_of(var->value(), var->stream());
    outputs.add(entry.collection, entry.name, logs.schema().role(i), std::move(value));
  }
  if (!outputs.empty()) records_.push_back({elapsed, std::move(outputs)});
}

std::vector<HostArray> Outputs::collect(std::string_view name) const {
  std::vector<HostArray> arrays;
  for (Found& found : find(*this, name)) arrays.push_back(std::move(found.array));
  return arrays;
}

HostArray Outputs::concatenate(std::string_view name) const {
  const std::vector<Found> parts = find(*this, name);
  const Found& first = parts.front();
  const Shape row = rows_shape(first.array).drop_front();
  const auto describe = [](const Found& found) {
    return fmt::format("{}{} at step {}", name_of(found.array.dtype()), to_string(found.array.shape()),
                       found.record->elapsed.steps);
  };
  std::int64_t rows = 0;
  for (const Found& part : parts) {
    const bool same_rows = rows_shape(part.array).drop_front() == row;
    if (!same_rows || part.array.dtype() != first.array.dtype()) {
      throw_error(same_rows ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                  "the output '{}' cannot be concatenated: it is {}, but {}", name, describe(first), describe(part));
    }
    rows += rows_shape(part.array)[0];
  }

  const Shape shape = row.with_front(rows);
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(first.array.dtype());
  const auto memory = std::make_shared<const Buffer>(Buffer::allocate(Device::cpu(), bytes));
  auto* next = static_cast<char*>(memory->data());
  for (const Found& part : parts) {
    const Tensor tensor = part.array.tensor();
    if (tensor.bytes() == 0) continue;
    std::memcpy(next, tensor.raw(), tensor.bytes());
    next += tensor.bytes();
  }
  return HostArray(Tensor(memory->data(), first.array.dtype(), shape, Device::cpu()), memory);
}

}  // namespace giro
