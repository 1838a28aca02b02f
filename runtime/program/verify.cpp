#include "runtime/program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

class Verifier {
 public:
  Verifier(const Values& values, const std::string& by) : values_(values), by_(by), written_(values.count() + 1) {}

  void add(const HeldOp& op) {
    op_ = &op;
    const CallSite site = CallSite::of_node(op.node.where);
    std::vector<Id> writes;
    op.call->for_each([&](const Tensor& tensor, Use use) {
      if (tensor) expect_name(tensor);
      if (tensor && use == Use::updated && values_.of(tensor).before == 0 && values_.of(tensor).parts.empty()) {
        fail("changes value {} of nothing, expected what the op finds there", id_of(tensor));
      }
    });
    try {
      op.call->check(op);
    } catch (const Error& error) {
      fail("is wrong: {}", error.what());
    }
    values_.for_each_use(op, [&](const Tensor& tensor, bool is_read) {
      if (is_read) return read(tensor);
      // An op that writes several parts of an array names it each time.
      if (std::ranges::count(writes, id_of(tensor)) > 0) return;
      write(tensor);
      writes.push_back(id_of(tensor));
      if (op.call->is_sequence()) written_[id_of(tensor)] = true;
    });
    for (const Id id : writes) written_[id] = true;
  }

  void finish() const {
    for (Id id = 1; id <= values_.count(); ++id) {
      const Value& value = values_[id];
      for (const Value::Part& part : value.parts) {
        if (value.place + part.offset == values_[part.id].place + part.offset_of_it) continue;
        throw_invalid("{} leaves value {} outside value {}, of which it is a part", by_, part.id, id);
      }
      const bool is_needed = !value.is_input && !value.is_temporary && !value.is_gone && value.under.empty();
      if (!is_needed || is_there(id, 0, value.bytes)) continue;
      throw_invalid("{} leaves value {} without an op that writes it, which is needed after the program", by_, id);
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_invalid("{} makes a wrong program: op '{}' {}", by_, op_->node.op,
                  fmt::format(format, std::forward<Args>(args)...));
  }

  void expect_name(const Tensor& tensor) const {
    const Id id = id_of(tensor);
    if (id == 0 || id > values_.count()) fail("uses {}, which is no value of the program", to_string(tensor));
    if (offset_of(tensor) + tensor.bytes() > values_[id].bytes) {
      fail("uses {} at byte {} of value {}, expected no more than its {} bytes", to_string(tensor), offset_of(tensor),
           id, values_[id].bytes);
    }
  }

  // Whether it has these bytes.
  bool is_there(Id id, std::size_t begin, std::size_t bytes) const {
    const Value& value = values_[id];
    if (value.is_input || written_[id]) return true;
    std::size_t found = 0;
    for (const Value::Part& part : value.parts) {
      const std::size_t first = std::max(begin, part.offset), last = std::min(begin + bytes, part.offset + part.bytes);
      found += first < last ? last - first : 0;
    }
    return !value.parts.empty() && found == bytes;
  }

  void read(const Tensor& tensor) const {
    values_.for_each_range(tensor, [&](Id id, std::size_t begin, std::size_t bytes) {
      if (!is_there(id, begin, bytes)) fail("reads value {}, which no op before it writes", id);
      const Value& value = values_[id];
      for (const Id later : value.under) {
        const char *const own = value.place + begin, *const other = values_[later].place;
        if (written_[later] && own < other + values_[later].bytes && other < own + bytes) {
          fail("reads value {}, over which value {} has been written", id, later);
        }
      }
    });
  }

  void write(const Tensor& tensor) const {
    const Id id = id_of(tensor);
    const Value& value = values_[id];
    if (value.is_input || written_[id]) {
      fail("writes value {}, which {}", id, value.is_input ? "was there before the program" : "an op before it writes");
    }
    if (offset_of(tensor) != 0 || tensor.bytes() != value.bytes) {
      fail("writes {} bytes at byte {} of value {}, expected all of its {} bytes", tensor.bytes(), offset_of(tensor),
           id, value.bytes);
    }
    if (value.before != 0 && values_[value.before].place + value.offset_of_before != value.place) {
      fail("changes value {} to value {}, which lies elsewhere", value.before, id);
    }
  }

  const Values& values_;
  const std::string& by_;
  std::vector<bool> written_;
  const HeldOp* op_ = nullptr;
};

}  // namespace

bool verifies_programs() {
  const char* const setting = std::getenv("GIRO_VERIFY");
  return setting != nullptr && std::string_view(setting) == "1";
}

void verify(const std::vector<HeldOp>& ops, const Values& values, const std::string& by) {
  Verifier verifier(values, by);
  for (const HeldOp& op : ops) {
    if (op.call != nullptr) verifier.add(op);
  }
  verifier.finish();
}

}  // namespace giro::detail
