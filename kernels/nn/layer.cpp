#include <giro/kernels/nn/layer.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "runtime/internal/call_site.h"
#include "runtime/internal/text.h"

namespace giro::nn {

ParamSpecs::ParamSpecs() : specs_(std::make_shared<std::vector<Spec>>()) {}

void ParamSpecs::add(const std::string& name, const Shape& shape, const Fans& fans, Initializer initializer) {
  specs_->push_back({prefix_ + name, shape, fans, std::move(initializer)});
}

ParamSpecs ParamSpecs::below(const std::string& name) const {
  ParamSpecs result = *this;
  result.prefix_ += name + "/";
  return result;
}

struct Params::Tree {
  std::map<std::string, Var> vars;
  Stream stream;
};

Params::Params(std::map<std::string, Var> vars, const Stream& stream)
    : tree_(std::make_shared<const Tree>(Tree{std::move(vars), stream})) {}

const Stream& Params::stream() const { return tree_->stream; }
const std::map<std::string, Var>& Params::all() const { return tree_->vars; }

const Var& Params::operator[](const std::string& name) const {
  const auto found = tree_->vars.find(prefix_ + name);
  if (found == tree_->vars.end()) {
    std::vector<std::string> known;
    for (const auto& [path, var] : tree_->vars) known.push_back(path);
    throw Error(ErrorCode::not_found,
                fmt::format("no parameter '{}{}'{}", prefix_, name, suggestion(prefix_ + name, known)));
  }
  return found->second;
}

Params Params::below(const std::string& name) const {
  Params result = *this;
  result.prefix_ += name + "/";
  return result;
}

Var Layer::apply(const Params& params, const Var& x, std::source_location where) const {
  const detail::CallSite site(where);
  if (self_->is_of_giro()) return self_->apply(params, x);
  const auto user_code = detail::CallSite::of_user_code();
  return self_->apply(params, x);
}

Var Layer::operator()(const Params& params, const Var& x, std::source_location where) const {
  return apply(params, x.on(params.stream()), where);
}

}  // namespace giro::nn
