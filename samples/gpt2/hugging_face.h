#pragma once

// GPT-2's weights as Hugging Face's transformers name them: what its save_pretrained writes, and from_pretrained reads.

#include <giro/giro.h>

#include <string>
#include <utility>
#include <vector>

namespace hugging_face {

// Their names, where * is the number of a block, and giro's.
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

inline void load(const std::string& path, giro::TrainState& state) {
  const giro::Safetensors file = giro::load(path);
  giro::LoadOptions options{.only = {"params"}, .rename = kNames};
  // Files of a model with a head have a prefix, and some the causal mask and the head, which is the embedding again.
  for (const auto& [theirs, ours] : kNames) options.rename.emplace_back("transformer." + theirs, ours);
  options.optional = {"**.attn.bias", "**.attn.masked_bias", "lm_head.weight", "h.*.attn.bias"};
  giro::load_into(state, file.tensors, options);
}

inline void save(const std::string& path, const giro::TrainState& state) {
  std::vector<giro::Leaf> leaves = state.flatten("params");
  for (giro::Leaf& leaf : leaves) {
    for (const auto& [theirs, ours] : kNames) {
      const std::size_t star = ours.find('*');
      if (star == std::string::npos) {
        if (leaf.path == ours) leaf.path = theirs;
        continue;
      }
      const std::string before = ours.substr(0, star), after = ours.substr(star + 1);
      if (!leaf.path.starts_with(before) || !leaf.path.ends_with(after)) continue;
      const std::string number = leaf.path.substr(star, leaf.path.size() - before.size() - after.size());
      leaf.path = theirs;
      leaf.path.replace(theirs.find('*'), 1, number);
      break;
    }
  }
  giro::save(path, leaves, *giro::posix_file_system(), {{"format", "pt"}});
}

}  // namespace hugging_face
