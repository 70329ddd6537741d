"""The tiny checkpoints of tests/golden: one or more variants for every switch that a family reads.

A variant is (family, name, config changes, storage). Storage is the kind of the matrices
("f32", "bf16", "f16", "affine", a ggml block kind) with its parameters, and overrides by suffix of
the tensor's name.
"""

BASE = {
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 256,
}

FAMILIES = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    "mistral": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 32, "use_sliding_window": False},
}

ABSENT = object()  # removes a key of BASE


def affine(bits, group, scale_type="f16", **overrides):
    return {"kind": "affine", "bits": bits, "group": group, "scale_type": scale_type, "overrides": overrides}


def kind(name, **overrides):
    return {"kind": name, "overrides": overrides}


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
BLOCK256 = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
            "vocab_size": 128}

VARIANTS = [
    # family, name, config, storage
    ("llama", "base", {}, kind("f32")),
    ("llama", "tied_head_dim_24", {"tie_word_embeddings": True, "head_dim": 24, "num_key_value_heads": 1,
                                   "rms_norm_eps": 1e-5}, kind("f32")),
    ("llama", "tied_but_head_present", {"tie_word_embeddings": True, "num_key_value_heads": 4, "head_dim": 10},
     kind("f32")),
    ("llama", "biases", {"attention_bias": True, "mlp_bias": True}, kind("f32")),
    ("llama", "rope_theta", {"rope_theta": 500000.0, "num_key_value_heads": ABSENT}, kind("f32")),
    ("llama", "rope_theta_inside", {"rope_theta": ABSENT, "rope_parameters": {
        "rope_theta": 500000.0, "rope_type": "default"}}, kind("f32")),
    ("llama", "rope_theta_both", {"rope_theta": 123.0, "rope_parameters": {"rope_theta": 500000.0,
                                                                         "rope_type": "default"}}, kind("f32")),
    ("llama", "rope_linear", {"rope_scaling": {"type": "linear", "factor": 4.0}}, kind("f32")),
    ("llama", "rope_llama3", {"rope_theta": 500000.0, "rope_scaling": LLAMA3}, kind("f32")),
    ("llama", "rope_yarn", {"rope_scaling": YARN, "head_dim": 32}, kind("f32")),
    ("llama", "rope_yarn_mscale", {"rope_theta": ABSENT, "head_dim": 32, "rope_parameters": {
        **YARN, "rope_theta": 5000.0, "mscale": 1.2, "mscale_all_dim": 0.7, "beta_fast": 16.0, "beta_slow": 2.0,
        "truncate": False}}, kind("f32")),
    ("llama", "rope_yarn_attention_factor", {"rope_scaling": {**YARN, "attention_factor": 1.3, "factor": None},
                                             "head_dim": 32}, kind("f32")),
    ("llama", "rope_dynamic", {"max_position_embeddings": 48, "rope_scaling": {"type": "dynamic", "factor": 4.0}},
     kind("f32")),
    ("llama", "rope_dynamic_long_prompt", {"max_position_embeddings": 16, "rope_scaling": {
        "rope_type": "dynamic", "factor": 8.0}}, kind("f32")),
    ("llama", "bf16", {}, kind("bf16")),
    ("llama", "f16", {"tie_word_embeddings": True}, kind("f16")),
    ("llama", "affine4_g32", {}, affine(4, 32, "f16")),
    ("llama", "affine4_g64", WIDE, affine(4, 64, "bf16")),
    ("llama", "affine4_g128", WIDE, affine(4, 128, "f32")),
    ("llama", "affine8_g32", {}, affine(8, 32, "f32")),
    ("llama", "affine8_g64", {**WIDE, "tie_word_embeddings": True}, affine(8, 64, "f16")),
    ("llama", "affine8_g128", WIDE, affine(8, 128, "bf16")),
    ("llama", "affine_mixed", {**WIDE, "attention_bias": True}, affine(
        4, 64, "bf16", **{"v_proj": (8, 32), "down_proj": (6, 64), "lm_head": (8, 64), "layers.1.self_attn.q_proj": (8, 64),
                          "layers.1.mlp.up_proj": (3, 32), "embed_tokens": (5, 64)})),
    ("llama", "affine_low_bits", WIDE, affine(2, 32, "f16", **{"k_proj": (3, 64), "o_proj": (5, 32), "gate_proj": (1, 64),
                                                              "lm_head": None})),
    ("llama", "gguf_q8_0", {}, kind("q8_0")),
    ("llama", "gguf_q4_0", {}, kind("q4_0", lm_head="q8_0")),
    ("llama", "gguf_q4_1", {"tie_word_embeddings": True}, kind("q4_1", embed_tokens="q8_0")),
    ("llama", "gguf_q5", {}, kind("q5_0", down_proj="q5_1", v_proj="q5_1")),
    ("llama", "gguf_q4_K", BLOCK256, kind("q4_K", v_proj="q6_K", down_proj="q6_K", lm_head="q6_K")),
    ("llama", "gguf_q2_K", BLOCK256, kind("q2_K", v_proj="q3_K", o_proj="q3_K", down_proj="q5_K", lm_head="q6_K")),
    ("mistral", "base", {}, kind("f32")),
    ("mistral", "window_8", {"sliding_window": 8, "head_dim": 20}, kind("f32")),
    ("mistral", "window_absent", {"sliding_window": ABSENT, "num_key_value_heads": ABSENT, "num_attention_heads": 8,
                                  "tie_word_embeddings": True}, kind("f32")),
    ("mistral", "bf16", {"sliding_window": 33}, kind("bf16")),
    ("mistral", "affine4_g64", {**WIDE, "sliding_window": 16}, affine(4, 64, "bf16", v_proj=(8, 64))),
    ("mistral", "affine8_g32", {}, affine(8, 32, "f16")),
    ("qwen2", "base", {}, kind("f32")),
    ("qwen2", "tied_theta", {"tie_word_embeddings": True, "rope_theta": 1000000.0, "num_key_value_heads": 1}, kind("f32")),
    ("qwen2", "window", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}, kind("f32")),
    ("qwen2", "window_off", {"use_sliding_window": False, "sliding_window": 9, "max_window_layers": 1}, kind("f32")),
    ("qwen2", "layer_types", {"use_sliding_window": True, "sliding_window": 5, "layer_types": [
        "sliding_attention", "full_attention", "sliding_attention"]}, kind("f32")),
    ("qwen2", "rope_yarn", {"rope_scaling": {**YARN, "type": "yarn"}, "rope_theta": 1000000.0, "hidden_size": 128},
     kind("f32")),
    ("qwen2", "bf16", {}, kind("bf16")),
    ("qwen2", "affine4_g64", WIDE, affine(4, 64, "f16")),
    ("qwen2", "affine8_g128", {**WIDE, "tie_word_embeddings": True}, affine(8, 128, "bf16")),
    ("qwen2", "gguf_q8_0", {}, kind("q8_0")),
    ("qwen3", "base", {}, kind("f32")),
    ("qwen3", "tied_biases", {"tie_word_embeddings": True, "attention_bias": True, "head_dim": 18, "rms_norm_eps": 1e-5},
     kind("f32")),
    ("qwen3", "head_dim_absent", {"head_dim": ABSENT, "num_hidden_layers": 2}, kind("f32")),
    ("qwen3", "window", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2}, kind("f32")),
    ("qwen3", "rope_theta_inside", {"rope_theta": ABSENT, "rope_parameters": {"rope_theta": 1000000.0,
                                                                             "rope_type": "default"}}, kind("f32")),
    ("qwen3", "bf16", {}, kind("bf16")),
    ("qwen3", "affine4_g128", WIDE, affine(4, 128, "f16")),
    ("qwen3", "affine_mixed", WIDE, affine(4, 32, "bf16", **{"v_proj": (6, 32), "down_proj": (8, 64), "embed_tokens": (6, 64)})),
    ("qwen3", "gguf_q4_0", {}, kind("q4_0", lm_head="q8_0", v_proj="q8_0")),
]
