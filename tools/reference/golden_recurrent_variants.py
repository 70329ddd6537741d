"""The tiny checkpoints of recurrent and hybrid families: one or more variants for every switch that
a family reads.

A variant is (family, name, config changes, storage). Storage is the kind of the matrices ("f32",
"bf16", "f16", "affine"); "gain", the size of what they give; "mlx": True for the layout of MLX
conversions; "flat": True for small parameters stored as vectors; "oracle", config changes for the
reference alone. Of a family, "gain" is the middle of its norms' weights, "rules" are its tensors of
unusual size (see golden_recurrent.py), "names" splits the reference's parameters into the tensors of
published files.
"""

ABSENT = object()  # removes a key

F32 = {"kind": "f32"}


def affine(bits, group):
    return {"kind": "affine", "bits": bits, "group": group, "mlx": True}


SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
SSM = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 4,
       "mamba_expand": 2}



def split_experts(name, shape, prefix, gate="gate_proj", up="up_proj", down="down_proj"):
    """The stacked matrices of transformers as one matrix for each expert, in the order of the stack."""
    experts = range(shape[0])
    if name.endswith("gate_up_proj"):
        half = (shape[1] // 2, shape[2])
        return [(f"{prefix}.{e}.{p}.weight", half) for e in experts for p in (gate, up)]
    return [(f"{prefix}.{e}.{down}.weight", tuple(shape[1:])) for e in experts]


def experts_one_by_one(shapes, config, **names):
    out = {}
    for n, s in shapes.items():
        stack = n.endswith(("experts.gate_up_proj", "experts.down_proj"))
        out[n] = split_experts(n, s, n.rsplit(".", 1)[0], **names) if stack else [(n, s)]
    return out


def granite_names(shapes, config):
    out = {}
    for n, s in shapes.items():
        file = n.replace("experts.gate_up_proj", "input_linear.weight").replace(
            "experts.down_proj", "output_linear.weight").replace("router.weight", "router.layer.weight")
        out[n] = [(file, s)]
    return out


def nemotron_names(shapes, config):
    out = {}
    for n, s in shapes.items():
        file = n.replace("model.", "backbone.", 1)
        if n.endswith(("experts.up_proj", "experts.down_proj")):
            stack, matrix = file.rsplit(".", 1)
            out[n] = [(f"{stack}.{e}.{matrix}.weight", tuple(s[1:])) for e in range(s[0])]
        else:
            out[n] = [(file, s)]
    return out


def kimi_names(shapes, config):
    """The names of the published files: see transformers' conversion of kimi_linear."""
    out = {}
    for n, s in experts_one_by_one(shapes, config, gate="w1", up="w3", down="w2").items():
        sparse = ".experts." in s[0][0] or "mlp.gate." in n or "shared_experts" in n
        renamed = [(p.replace("forget_gate.", "").replace(".mlp.", ".block_sparse_moe.") if sparse
                    else p.replace("forget_gate.", ""), q) for p, q in s]
        if n.endswith("self_attn.conv1d.weight"):
            third = (s[0][1][0] // 3, *s[0][1][1:])
            renamed = [(n.replace("conv1d", f"{c}_conv1d"), third) for c in "qkv"]
        out[n] = renamed
    return out


DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12,
         "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4}

MAMBA = {**SIZES, "state_size": 8, "conv_kernel": 4, "expand": 2, "hidden_act": "silu", "layer_norm_epsilon": 1e-5,
         "time_step_rank": "auto", "use_bias": False, "use_conv_bias": True, "tie_word_embeddings": True}

FAMILIES = {
    "mamba": {"config": {"model_type": "mamba", "architectures": ["MambaForCausalLM"], **MAMBA}},
    "falcon_mamba": {"config": {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], **MAMBA}},
    "mamba2": {"config": {
        "model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], **MAMBA, "num_heads": 8, "head_dim": 16,
        "n_groups": 2, "state_size": 12, "tie_word_embeddings": False, "chunk_size": 16}},
    "lfm2": {"config": {
        "model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], **SIZES, **ATTENTION, "intermediate_size": 96,
        "conv_L_cache": 3, "conv_bias": False, "norm_eps": 1e-5, "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv"], "rope_theta": 1000000.0, "tie_word_embeddings": True}},
    "granitemoehybrid": {"names": granite_names, "config": {
        "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"], **SIZES, **ATTENTION, **SSM,
        "intermediate_size": 32, "shared_intermediate_size": 96, "hidden_act": "silu", "num_local_experts": 0,
        "num_experts_per_tok": 0, "rms_norm_eps": 1e-5, "layer_types": ["mamba", "attention", "mamba"],
        "embedding_multiplier": 3.0, "attention_multiplier": 0.3, "residual_multiplier": 0.6, "logits_scaling": 2.0,
        "mamba_chunk_size": 16, "mamba_conv_bias": True, "mamba_proj_bias": False, "position_embedding_type": "nope",
        "tie_word_embeddings": True}},
    "falcon_h1": {"config": {
        "model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], **SIZES, **ATTENTION, **SSM,
        "num_hidden_layers": 2, "intermediate_size": 96, "hidden_act": "silu", "mamba_d_ssm": 128, "rms_norm_eps": 1e-5,
        "mamba_chunk_size": 16, "mamba_rms_norm": False, "tie_word_embeddings": False}},
    "qwen3_5": {"gain": 0.0, "mlx_adds_one": True, "rules": [("linear_attn.norm.weight", 1.0, 0.25)], "config": {
        "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], **SIZES, **ATTENTION, **DELTA,
        "intermediate_size": 96, "hidden_act": "silu", "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                            "mrope_section": [2, 1, 1], "mrope_interleaved": True}}},
    "recurrent_gemma": {"gain": 0.0, "rules": [("embed_tokens.weight", 0.0, 0.03)], "config": {
        "model_type": "recurrent_gemma", "architectures": ["RecurrentGemmaForCausalLM"], **SIZES,
        "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 192, "lru_width": None,
        "attention_window_size": 9, "conv1d_width": 4, "logits_soft_cap": 30.0, "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh", "block_types": ["recurrent", "recurrent", "attention"],
        "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "attention_bias": False, "tie_word_embeddings": True}},
    "nemotron_h": {"names": nemotron_names, "config": {
        "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], **SIZES, **ATTENTION,
        "num_hidden_layers": 5, "hybrid_override_pattern": "M-*M-", "intermediate_size": 96, "head_dim": 16,
        "ssm_state_size": 12, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "conv_kernel": 4,
        "chunk_size": 16, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "layer_norm_epsilon": 1e-5,
        "time_step_min": 0.001, "use_conv_bias": True, "use_bias": False, "mlp_bias": False,
        "tie_word_embeddings": False}},
    "jamba": {"names": experts_one_by_one, "config": {
        "model_type": "jamba", "architectures": ["JambaForCausalLM"], **SIZES, **ATTENTION, "intermediate_size": 96,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_dt_rank": "auto", "mamba_conv_bias": True, "mamba_proj_bias": False, "attn_layer_period": 3,
        "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 1,
        "num_experts_per_tok": 1, "tie_word_embeddings": False, "use_mamba_kernels": False}},
    "rwkv7": {"oracle": "mlx-lm", "rules": [
        ("k_k", 1.0, 0.25), ("k_a", 1.0, 0.25), ("r_k", 0.0, 0.3), ("g_norm.weight", 1.0, 0.25), ("g_norm.bias", 0.0, 0.2),
        *[(f".x_{c}", 0.5, 0.5) for c in "rwkvag"]], "config": {
        "model_type": "rwkv7", "architectures": ["RWKV7ForCausalLM"], **SIZES, "intermediate_size": 96, "norm_eps": 1e-5,
        "head_dim": 16, "a_low_rank_dim": 8, "v_low_rank_dim": 6, "gate_low_rank_dim": 10, "decay_low_rank_dim": 12,
        "hidden_act": "sqrelu", "tie_word_embeddings": False}},
    "plamo2": {"oracle": "mlx-lm", "gain": 0.0, "rules": [
        ("q_weight", 1.0, 0.25), ("k_weight", 1.0, 0.25), ("norm_weight", 1.0, 0.25)], "config": {
        "model_type": "plamo2", "architectures": ["Plamo2ForCausalLM"], **SIZES, **ATTENTION, "num_hidden_layers": 4,
        "intermediate_size": 96, "hidden_size_per_head": 16, "rms_norm_eps": 1e-6, "attention_window_size": 2048,
        "full_attention_idx": [1], "mamba_d_state": 12, "mamba_d_conv": 4, "mamba_num_heads": 5, "mamba_step": 2,
        "mamba_chunk_size": 16, "mamba_enabled": True, "tie_word_embeddings": True}},
    "qwen3_next": {"gain": 0.0, "mlx_adds_one": True, "rules": [("linear_attn.norm.weight", 1.0, 0.25)],
                   "names": experts_one_by_one, "config": {
        "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], **SIZES, **ATTENTION, **DELTA,
        "intermediate_size": 96, "hidden_act": "silu", "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "partial_rotary_factor": 0.25,
        "rope_theta": 10000000.0, "decoder_sparse_step": 1, "moe_intermediate_size": 32, "num_experts": 6,
        "shared_expert_intermediate_size": 48, "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": []}},
    "qwen3_5_moe": {"gain": 0.0, "mlx_adds_one": True, "rules": [("linear_attn.norm.weight", 1.0, 0.25)], "config": {
        "model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForCausalLM"], **SIZES, **ATTENTION, **DELTA,
        "hidden_act": "silu", "head_dim": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "moe_intermediate_size": 32,
        "num_experts": 6, "shared_expert_intermediate_size": 48, "num_experts_per_tok": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                            "mrope_section": [2, 1, 1], "mrope_interleaved": True}}},
    "kimi_linear": {"names": kimi_names, "config": {
        "model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"], **SIZES, "pad_token_id": 0, "num_attention_heads": 4,
        "num_key_value_heads": 4, "model_max_length": 512, "intermediate_size": 96, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "kv_lora_rank": 24, "q_lora_rank": None, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
        "v_head_dim": 20, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_token": 2,
        "num_shared_experts": 1, "num_expert_group": 1, "topk_group": 1, "routed_scaling_factor": 1.7,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "moe_layer_freq": 1,
        "first_k_dense_replace": 1, "tie_word_embeddings": False,
        "linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1, 3], "num_heads": 4, "head_dim": 16,
                               "short_conv_kernel_size": 4}}},
}

MULTIPLIERS = {"embedding_multiplier": 2.5, "lm_head_multiplier": 0.7, "key_multiplier": 0.6,
               "attention_in_multiplier": 1.3, "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.4,
               "ssm_out_multiplier": 0.9, "mlp_multipliers": [0.8, 1.2], "ssm_multipliers": [0.7, 1.1, 0.9, 1.2, 0.6]}

VARIANTS = [
    ("mamba", "base", {}, F32),
    ("mamba", "untied_biases", {"tie_word_embeddings": False, "use_bias": True, "use_conv_bias": False,
                                "time_step_rank": 6, "conv_kernel": 3}, F32),
    ("mamba", "wide", {"expand": 3, "intermediate_size": 80, "num_hidden_layers": 2}, F32),
    ("mamba", "bf16", {}, {"kind": "bf16"}),
    ("mamba", "affine4_g32", {}, affine(4, 32)),
    ("falcon_mamba", "base", {"mixer_rms_eps": 1e-3}, F32),
    ("mamba2", "base", {}, F32),
    ("mamba2", "tied_biases", {"tie_word_embeddings": True, "use_bias": True, "use_conv_bias": False, "n_groups": 1,
                               "conv_kernel": 3}, F32),
    ("mamba2", "limits", {"time_step_limit": [0.2, 0.6], "n_groups": 8, "num_hidden_layers": 2}, F32),
    ("mamba2", "affine8_g32", {}, affine(8, 32)),
    ("lfm2", "base", {}, F32),
    ("lfm2", "adjusted_width", {"block_auto_adjust_ff_dim": True, "block_multiple_of": 16, "conv_bias": True,
                                "block_ffn_dim_multiplier": 1.3, "tie_word_embeddings": False, "conv_L_cache": 4}, F32),
    ("lfm2", "full_attn_idxs", {"layer_types": ABSENT, "full_attn_idxs": [0, 2], "block_auto_adjust_ff_dim": True,
                                "block_multiple_of": 32, "block_ff_dim": 144,
                                "rope_theta": ABSENT}, F32),
    ("lfm2", "bf16", {}, {"kind": "bf16"}),
    ("lfm2", "affine4_g32", {}, affine(4, 32)),
    ("granitemoehybrid", "dense", {}, F32),
    ("granitemoehybrid", "dense_rope", {"position_embedding_type": "rope", "rope_theta": 5000.0, "mamba_proj_bias": True,
                                        "mamba_conv_bias": False, "attention_bias": True, "mamba_n_groups": 1,
                                        "mamba_d_head": "auto", "tie_word_embeddings": False}, F32),
    ("granitemoehybrid", "dense_affine4_g32", {}, affine(4, 32)),
    ("falcon_h1", "base", {}, F32),
    ("falcon_h1", "multipliers", {**MULTIPLIERS, "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True,
                                  "projectors_bias": True, "tie_word_embeddings": True, "mamba_conv_bias": False}, F32),
    ("falcon_h1", "norm_before_gate", {"mamba_rms_norm": True, "mamba_norm_before_gate": True, "rope_theta": 500000.0,
                                       "head_dim": 24}, F32),
    ("falcon_h1", "norm_after_gate", {"mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_d_ssm": None,
                                      "time_step_limit": [0.2, 0.6]}, F32),
    ("falcon_h1", "folded", {**MULTIPLIERS}, {**F32, "mlx": True, "oracle": {k: ABSENT for k in MULTIPLIERS}}),
    ("qwen3_5", "base", {}, F32),
    ("qwen3_5", "interval", {"layer_types": ABSENT, "full_attention_interval": 2, "attention_bias": True,
                             "tie_word_embeddings": True, "linear_num_key_heads": 4, "linear_conv_kernel_dim": 3,
                             "head_dim": ABSENT, "num_attention_heads": 1, "num_key_value_heads": 1}, F32),
    ("qwen3_5", "affine4_g32", {}, affine(4, 32)),
    ("recurrent_gemma", "base", {}, F32),
    ("recurrent_gemma", "other_sizes", {"lru_width": 96, "num_hidden_layers": 4, "block_types": ["attention", "recurrent"],
                                        "attention_bias": True, "conv1d_width": 3, "logits_soft_cap": 5.0,
                                        "attention_window_size": 64, "num_key_value_heads": 2}, F32),
    ("recurrent_gemma", "affine8_g32", {}, affine(8, 32)),
    ("nemotron_h", "dense", {}, F32),
    ("nemotron_h", "dense_other", {
        "hybrid_override_pattern": ABSENT, "layers_block_type": ["mlp", "linear_attention", "full_attention"],
        "num_hidden_layers": 3, "use_bias": True, "use_conv_bias": False, "mlp_bias": True, "time_step_min": 0.2,
        "mlp_hidden_act": "silu", "n_groups": 1}, F32),
    ("jamba", "dense", {}, F32),
    ("jamba", "dense_other", {"mamba_dt_rank": 6, "mamba_conv_bias": False, "mamba_proj_bias": True,
                              "attn_layer_period": 2, "attn_layer_offset": 0, "tie_word_embeddings": True}, F32),
    ("jamba", "dense_affine4_g32", {}, affine(4, 32)),
    ("rwkv7", "base", {}, F32),
    ("rwkv7", "tied_flat", {"tie_word_embeddings": True, "head_dim": 32}, {**F32, "flat": True, "gain": 4.0}),
    ("rwkv7", "affine8_g32", {}, affine(8, 32)),
    ("plamo2", "base", {}, F32),
    ("plamo2", "untied_step_3", {"tie_word_embeddings": False, "mamba_step": 3, "mamba_d_conv": 3,
                                 "full_attention_idx": None}, F32),
    ("plamo2", "attention_only", {"mamba_enabled": False, "num_hidden_layers": 2}, F32),
    ("granitemoehybrid", "experts", {"num_local_experts": 5, "num_experts_per_tok": 2}, F32),
    ("jamba", "experts", {"num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 4}, F32),
    ("qwen3_next", "base", {}, F32),
    ("qwen3_next", "some_sparse", {"layer_types": ABSENT, "full_attention_interval": 2, "decoder_sparse_step": 2,
                                   "norm_topk_prob": False, "num_hidden_layers": 4, "mlp_only_layers": [3],
                                   "linear_num_key_heads": 4, "tie_word_embeddings": True}, F32),
    ("qwen3_next", "dense", {"num_experts": 0, "num_hidden_layers": 2,
                             "layer_types": ["linear_attention", "full_attention"]}, F32),
    ("qwen3_5_moe", "base", {}, F32),
    ("kimi_linear", "base", {}, F32),
    ("kimi_linear", "groups", {"num_expert_group": 4, "topk_group": 2, "moe_renormalize": False, "num_shared_experts": 2,
                               "first_k_dense_replace": 0}, F32),
    ("nemotron_h", "experts", {
        "hybrid_override_pattern": "ME*E", "num_hidden_layers": 4, "n_routed_experts": 8, "num_experts_per_tok": 3,
        "n_shared_experts": 1, "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40, "n_group": 4,
        "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 1.5, "moe_latent_size": None}, F32),
]
