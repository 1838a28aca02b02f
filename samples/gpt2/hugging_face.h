#pragma once

// GPT-2's weights under the names of Hugging Face's transformers, for its save_pretrained and from_pretrained.

#include <giro/giro.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace hugging_face {

// Hugging Face's names and giro's; * is the number of a block.
inline const std::vector<std::pair<std::string, std::string>> kNames{
    {"wte.weight", "params/embedding"},
    {"wpe.weight", "params/position_embedding0/embedding"},
    {"h.*.ln_1.weight", "params/block*/layer_norm0/scale"},
    {"h.*.ln_1.bias", "params/block*/layer_norm0/bias"},
    {"h.*.attn.c_attn.weight", "params/block*/attention0/qkv/kernel"},
    {"h.*.attn.c_attn.bias", "params/block*/attention0/qkv/bias"},
    {"h.*.attn.c_proj.weight", "params/block*/attention0/out/kernel"},
    {"h.*.attn.c_proj.bias", "params/block*/attention0/out/bias"},
    {"h.*.ln_2.weight", "params/block*/layer_norm1/scale"},
    {"h.*.ln_2.bias", "params/block*/layer_norm1/bias"},
    {"h.*.mlp.c_fc.weight", "params/block*/dense0/kernel"},
    {"h.*.mlp.c_fc.bias", "params/block*/dense0/bias"},
    {"h.*.mlp.c_proj.weight", "params/block*/dense1/kernel"},
    {"h.*.mlp.c_proj.bias", "params/block*/dense1/bias"},
    {"ln_f.weight", "params/layer_norm0/scale"},
    {"ln_f.bias", "params/layer_norm0/bias"},
};

inline void load_params(giro::TrainState& state, const std::vector<giro::Leaf>& leaves, const std::string& path,
    giro::LoadOptions options = {}) {
  options.only = {"params"};
  try {
    giro::load_into(state, leaves, options);
  } catch (const giro::Error& error) {
    throw giro::Error(error.code(), path + ": " + error.what());
  }
}

// The tensor of that name, with or without the prefix; empty if there is none.
inline giro::Tensor find(const giro::Safetensors& file, const std::string& name) {
  for (const giro::Leaf& leaf : file.tensors) {
    if (leaf.path == name || leaf.path == "transformer." + name) return leaf.value;
  }
  return {};
}

inline void load(const std::string& path, giro::TrainState& state) {
  const giro::Safetensors file = giro::load(path);
  giro::LoadOptions options{.rename = kNames};
  // Files of a model with a head have a prefix. Some have the causal mask, and the head, a copy of the embedding.
  for (const auto& [theirs, ours] : kNames) options.rename.emplace_back("transformer." + theirs, ours);
  options.rename.emplace_back("**", "params/**");  // any other name is an error
  options.optional = {"**.attn.bias", "**.attn.masked_bias", "params/lm_head.weight"};
  const giro::Tensor head = find(file, "lm_head.weight"), table = find(file, "wte.weight");
  if (head && table && (head.bytes() != table.bytes() || std::memcmp(head.raw(), table.raw(), head.bytes()) != 0)) {
    throw giro::Error(giro::ErrorCode::invalid_argument,
        path + ": lm_head.weight differs from wte.weight, expected a model whose head is its embedding");
  }
  load_params(state, file.tensors, path, options);
}

inline void save(const std::string& path, const giro::TrainState& state) {
  giro::SaveOptions options{.metadata = {{"format", "pt"}}};
  for (const auto& [theirs, ours] : kNames) options.rename.emplace_back(ours, theirs);
  giro::save(path, state.flatten("params"), options);
}

}  // namespace hugging_face
