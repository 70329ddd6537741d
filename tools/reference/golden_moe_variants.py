"""The tiny checkpoints of mixture-of-experts families: variants for every switch that a family reads.

A variant is (family, name, config changes, storage, layout). Layout "hf" has an entry for each
expert, "mlx" the stacks of mlx-lm, "as_is" the names of the reference's own parameters.
"""

from golden_variants import ABSENT, BASE, affine, kind

# Few tokens in the vocabulary and two layers keep the files small.
MOE_BASE = {**BASE, "vocab_size": 128, "num_hidden_layers": 2}

QWEN_MOE = {"decoder_sparse_step": 1, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
            "norm_topk_prob": True, "mlp_only_layers": []}
GROUPED = {"moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
           "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
           "first_k_dense_replace": 1}

FAMILIES = {
    "mixtral": {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 4,
                "num_experts_per_tok": 2, "intermediate_size": 48},
    "qwen2_moe": {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], **QWEN_MOE,
                  "shared_expert_intermediate_size": 48, "use_sliding_window": False},
    "qwen3_moe": {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], **QWEN_MOE, "head_dim": 32,
                  "use_sliding_window": False},
    "olmoe": {"model_type": "olmoe", "architectures": ["OlmoeForCausalLM"], "num_experts": 8,
              "num_experts_per_tok": 3, "norm_topk_prob": False, "intermediate_size": 32},
    "granitemoe": {"model_type": "granitemoe", "architectures": ["GraniteMoeForCausalLM"], "num_local_experts": 6,
                   "num_experts_per_tok": 3, "intermediate_size": 32, "embedding_multiplier": 3.0,
                   "logits_scaling": 4.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2},
    "glm4_moe": {"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"], **GROUPED, "head_dim": 16,
                 "use_qk_norm": True, "partial_rotary_factor": 0.5, "attention_bias": True,
                 "num_nextn_predict_layers": 0},
    "dots1": {"model_type": "dots1", "architectures": ["Dots1ForCausalLM"], **GROUPED, "num_key_value_heads": 4,
              "sliding_window": None},
    "ernie4_5_moe": {"model_type": "ernie4_5_moe", "architectures": ["Ernie4_5_MoeForCausalLM"],
                     "moe_intermediate_size": 32, "moe_num_experts": 8, "moe_k": 2, "moe_num_shared_experts": 2,
                     "moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1,
                     "use_bias": False},
}

LATENT = {"q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 20,
          "num_key_value_heads": 4}
FAMILIES |= {
    "deepseek_v2": {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], **GROUPED, **LATENT,
                    "norm_topk_prob": False, "topk_method": "greedy"},
    "deepseek_v3": {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], **GROUPED, **LATENT,
                    "n_routed_experts": 12, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3,
                    "num_nextn_predict_layers": 0},
    "glm4_moe_lite": {"model_type": "glm4_moe_lite", "architectures": ["Glm4MoeLiteForCausalLM"], **GROUPED, **LATENT,
                      "mlp_layer_types": ["dense", "sparse"]},
}
MSCALE = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "mscale": 0.9, "mscale_all_dim": 0.7,
          "beta_fast": 32, "beta_slow": 1}

FAMILIES |= {
    "gpt_oss": {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_local_experts": 6,
                "num_experts_per_tok": 3, "intermediate_size": 64, "head_dim": 16, "sliding_window": 9,
                "rope_theta": 150000.0, "rope_scaling": {
                    "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                    "original_max_position_embeddings": 64}},
}

FAMILIES |= {
    "minimax": {"model_type": "minimax_m2", "architectures": ["MiniMaxM2ForCausalLM"], "num_local_experts": 8,
                "num_experts_per_tok": 3, "intermediate_size": 32, "head_dim": 16, "rotary_dim": 8},
    "phimoe": {"model_type": "phimoe", "architectures": ["PhimoeForCausalLM"], "num_local_experts": 6,
               "num_experts_per_tok": 2, "intermediate_size": 32, "attention_bias": True, "lm_head_bias": True,
               "router_jitter_noise": 0.1},
}

# Experts as (gate, up, down), and renames from the reference's parameters to the checkpoint's.
BLOCK_SPARSE = {r"\.mlp\.": ".block_sparse_moe."}
NAMES = {
    "mixtral": {"experts": ("w1", "w3", "w2"), "rename": BLOCK_SPARSE},
    "minimax": {"experts": ("w1", "w3", "w2"), "rename": BLOCK_SPARSE},
    "phimoe": {"experts": ("w1", "w3", "w2"), "rename": {**BLOCK_SPARSE, r"\.router\.weight$": ".gate.weight"}},
    "granitemoe": {"rename": {r"experts\.gate_up_proj$": "input_linear.weight",
                              r"experts\.down_proj$": "output_linear.weight",
                              r"router\.weight$": "router.layer.weight"}},
    "ernie4_5_moe": {"rename": {r"gate\.moe_statics": "moe_statics"}},
}

# Tensors that only take part in the choice of experts.
CORRECTION = r"e_score_correction_bias|expert_bias"

WIDE = {"hidden_size": 128, "moe_intermediate_size": 64, "intermediate_size": 128}
GROUPS = {"n_routed_experts": 12, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3}

VARIANTS = [
    ("mixtral", "base", {}, kind("f32"), "hf"),
    ("mixtral", "window_bf16", {"sliding_window": 9, "num_experts_per_tok": 1}, kind("bf16"), "hf"),
    ("mixtral", "mlx_affine4", {**WIDE, "num_local_experts": 3}, affine(4, 64, "bf16", gate=(8, 64)), "mlx"),
    ("qwen2_moe", "base", {}, kind("f32"), "hf"),
    ("qwen2_moe", "plain_weights", {"norm_topk_prob": False, "decoder_sparse_step": 2, "qkv_bias": False}, kind("f32"), "hf"),
    ("qwen2_moe", "window", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3,
                             "num_hidden_layers": 4}, kind("f32"), "hf"),
    ("qwen2_moe", "layer_types", {"use_sliding_window": True, "sliding_window": 5, "layer_types": [
        "full_attention", "sliding_attention"]}, kind("f32"), "hf"),
    ("qwen2_moe", "mlx_affine4", {**WIDE, "shared_expert_intermediate_size": 64}, affine(
        4, 64, "f16", **{"mlp.gate": (8, 64), "shared_expert_gate": (8, 64)}), "mlx"),
    ("qwen3_moe", "base", {}, kind("f32"), "hf"),
    ("qwen3_moe", "sparse_step", {"decoder_sparse_step": 2, "num_hidden_layers": 4, "mlp_only_layers": [3],
                                  "norm_topk_prob": False, "attention_bias": True}, kind("f32"), "hf"),
    ("qwen3_moe", "window_tied", {"use_sliding_window": True, "sliding_window": 7, "tie_word_embeddings": True,
                                  "num_experts_per_tok": 8}, kind("f32"), "hf"),
    ("qwen3_moe", "rope_yarn", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                 "original_max_position_embeddings": 64}}, kind("f16"), "hf"),
    ("qwen3_moe", "mlx_bf16", {"head_dim": ABSENT}, kind("bf16"), "mlx"),
    ("qwen3_moe", "mlx_mixed", WIDE, affine(4, 32, "bf16", **{
        "mlp.gate": (8, 64), "switch_mlp.up_proj": (6, 32), "switch_mlp.down_proj": (8, 64)}), "mlx"),
    ("olmoe", "base", {}, kind("f32"), "hf"),
    ("olmoe", "clip_norm", {"clip_qkv": 0.7, "norm_topk_prob": True, "num_key_value_heads": 4,
                            "attention_bias": True}, kind("f32"), "hf"),
    ("olmoe", "mlx_affine8", {**WIDE, "intermediate_size": 64}, affine(8, 32, "f16"), "mlx"),
    ("granitemoe", "base", {}, kind("f32"), "as_is"),
    ("granitemoe", "plain_tied", {"embedding_multiplier": ABSENT, "logits_scaling": ABSENT, "attention_bias": True,
                                  "residual_multiplier": ABSENT, "attention_multiplier": ABSENT, "tie_word_embeddings": True},
     kind("bf16"), "as_is"),
    ("granitemoe", "mlx_affine4", {**WIDE, "intermediate_size": 64}, affine(4, 32, "f16"), "mlx"),
    ("glm4_moe", "base", {}, kind("f32"), "hf"),
    ("glm4_moe", "groups", {**GROUPS, "use_qk_norm": False, "partial_rotary_factor": ABSENT, "attention_bias": False,
                            "norm_topk_prob": False, "first_k_dense_replace": 0, "n_shared_experts": 2}, kind("f32"), "hf"),
    ("glm4_moe", "mlx_affine4", WIDE, affine(4, 64, "bf16"), "mlx"),
    ("dots1", "base", {}, kind("f32"), "hf"),
    ("dots1", "window", {**GROUPS, "sliding_window": 9, "max_window_layers": 1, "attention_bias": True}, kind("f32"), "hf"),
    ("dots1", "layer_types", {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"],
                              "routed_scaling_factor": ABSENT}, kind("bf16"), "hf"),
    ("dots1", "mlx_mixed", {**WIDE, "num_key_value_heads": 2}, affine(4, 64, "bf16", **{
        "v_proj": (6, 64), "down_proj": (6, 64)}), "mlx"),
    ("minimax", "base", {}, kind("f32"), "hf"),
    ("minimax", "whole_heads", {"rotary_dim": ABSENT, "tie_word_embeddings": True}, kind("bf16"), "hf"),
    ("minimax", "mlx_affine4", {**WIDE, "intermediate_size": 64}, affine(4, 64, "bf16"), "mlx"),
    ("phimoe", "base", {}, kind("f32"), "hf"),
    ("phimoe", "plain", {"attention_bias": False, "lm_head_bias": False, "router_jitter_noise": ABSENT,
                         "sliding_window": 9}, kind("f32"), "hf"),
    ("gpt_oss", "base", {}, kind("f32"), "as_is"),
    ("gpt_oss", "mxfp4", {}, kind("mxfp4"), "mxfp4"),
    ("gpt_oss", "mlx_mxfp4", {"swiglu_limit": 1.5, "swiglu_alpha": 1.2}, kind("mxfp4_mlx"), "mlx"),
    ("gpt_oss", "layer_types", {"layer_types": ["full_attention", "sliding_attention"], "attention_bias": False,
                                "rope_scaling": ABSENT, "head_dim": ABSENT, "max_position_embeddings": 8192},
     kind("bf16"), "as_is"),
    ("deepseek_v2", "base", {}, kind("f32"), "hf"),
    ("deepseek_v2", "group_limited", {"topk_method": "group_limited_greedy", "n_routed_experts": 12, "n_group": 4,
                                      "topk_group": 2, "num_experts_per_tok": 3, "q_lora_rank": None,
                                      "attention_bias": True, "mlp_bias": True, "n_shared_experts": 2,
                                      "first_k_dense_replace": 0}, kind("f32"), "hf"),
    ("deepseek_v2", "yarn_bf16", {"rope_scaling": MSCALE}, kind("bf16"), "hf"),
    ("deepseek_v3", "base", {}, kind("f32"), "hf"),
    ("deepseek_v3", "yarn", {"rope_scaling": MSCALE, "norm_topk_prob": False, "attention_bias": True}, kind("f32"), "hf"),
    ("deepseek_v3", "split_halves", {"rope_interleave": False, "q_lora_rank": None, "first_k_dense_replace": 2},
     kind("bf16"), "hf"),
    ("glm4_moe_lite", "base", {}, kind("f32"), "hf"),
    ("glm4_moe_lite", "all_sparse", {"mlp_layer_types": ["sparse", "sparse"], "rope_interleave": False}, kind("f32"), "hf"),
    ("ernie4_5_moe", "base", {}, kind("f32"), "hf"),
    ("ernie4_5_moe", "bias_range", {"use_bias": True, "num_hidden_layers": 4, "moe_layer_interval": 2,
                                    "moe_layer_start_index": 0, "moe_layer_end_index": 2}, kind("f32"), "hf"),
    ("ernie4_5_moe", "tied_floor", {"tie_word_embeddings": True, "moe_norm_min": 0.6, "moe_num_shared_experts": 0},
     kind("f32"), "hf"),
    ("ernie4_5_moe", "mlx_affine4", WIDE, affine(4, 64, "f16"), "mlx"),
]
