"""Dense families beyond Llama, Mistral and Qwen: for every switch that their code reads, a variant.

Keys of a family that begin with "_" are for the generator: "_base" stands in for BASE, "_norm_offset"
is the middle of the gains' random values, "_conv1d" marks layers stored inputs first, "_twin" names
the functions of golden_twins.py that make an equal model of another family.
"""

from golden_variants import ABSENT, BASE, LLAMA3, WIDE, YARN, affine, kind

# Ids of special tokens that the small vocabulary has.
IDS = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}

SLIDING = {"sliding_window": 9, "num_hidden_layers": 4}
LISTED = {"layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]}


def family(class_name, model_type, **more):
    return {"model_type": model_type, "architectures": [class_name], **IDS, **more}


def layer_norm(key="layer_norm_eps", **more):
    return {"rms_norm_eps": ABSENT, key: 1e-5, **more}


GEMMA = {"_norm_offset": 0.0, "_embedding_gain": 0.1, "head_dim": 24, "tie_word_embeddings": True}
GEMMA2 = {**GEMMA, "hidden_act": ABSENT, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 40}
GPT2_BASE = {"activation_function": "gelu_new", "n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 512,
             "tie_word_embeddings": True, "vocab_size": 256}

DENSE_FAMILIES = {
    "gemma": family("GemmaForCausalLM", "gemma", **GEMMA, hidden_act="gelu_pytorch_tanh"),
    "gemma2": family("Gemma2ForCausalLM", "gemma2", **GEMMA2, **SLIDING),
    "gemma3": family("Gemma3ForCausalLM", "gemma3_text", **GEMMA2, **SLIDING, rope_theta=1000000.0,
                     rope_local_base_freq=10000.0, sliding_window_pattern=2),
    "gemma4": family("Gemma4ForCausalLM", "gemma4_text", _embedding_gain=0.1, head_dim=16, tie_word_embeddings=True,
                     hidden_act=ABSENT, hidden_activation="gelu_pytorch_tanh", rope_theta=ABSENT, global_head_dim=32,
                     vocab_size_per_layer_input=256, hidden_size_per_layer_input=8, num_hidden_layers=6,
                     sliding_window=9),
    "phi3": family("Phi3ForCausalLM", "phi3"),
    "smollm3": family("SmolLM3ForCausalLM", "smollm3", num_hidden_layers=4, rope_theta=2000000.0,
                      tie_word_embeddings=True),
    "olmo": family("OlmoForCausalLM", "olmo", rms_norm_eps=ABSENT),
    "olmo2": family("Olmo2ForCausalLM", "olmo2"),
    "olmo3": family("Olmo3ForCausalLM", "olmo3", **SLIDING, rope_theta=500000.0),
    "granite": family("GraniteForCausalLM", "granite", embedding_multiplier=12.0, logits_scaling=8.0,
                      residual_multiplier=0.22, attention_multiplier=0.3),
    "minicpm": family("MiniCPMForCausalLM", "minicpm", _twin="minicpm", scale_emb=12.0, scale_depth=1.4,
                      dim_model_base=16),
    "cohere": family("CohereForCausalLM", "cohere", **layer_norm(), tie_word_embeddings=True),
    "cohere2": family("Cohere2ForCausalLM", "cohere2", **layer_norm(), **SLIDING, tie_word_embeddings=True),
    "glm": family("GlmForCausalLM", "glm", head_dim=16),
    "glm4": family("Glm4ForCausalLM", "glm4", head_dim=16),
    "exaone4": family("Exaone4ForCausalLM", "exaone4", **SLIDING, sliding_window_pattern=4),
    "seed_oss": family("SeedOssForCausalLM", "seed_oss", head_dim=24),
    "ernie4_5": family("Ernie4_5ForCausalLM", "ernie4_5", head_dim=24, tie_word_embeddings=True),
    "hunyuan_v1_dense": family("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", head_dim=24),
    "helium": family("HeliumForCausalLM", "helium", head_dim=16, rms_norm_eps=1e-8, rope_theta=100000.0),
    "internlm2": family("InternLM2ForCausalLM", "internlm2", _twin="internlm2"),
    "internlm3": family("InternLM3ForCausalLM", "internlm3", head_dim=16),
    "ministral3": family("Ministral3ForCausalLM", "ministral3", head_dim=24, rope_theta=ABSENT, rope_parameters={
        **YARN, "original_max_position_embeddings": 16, "rope_theta": 1000000.0, "llama_4_scaling_beta": 0.1}),
    "apertus": family("ApertusForCausalLM", "apertus", hidden_act="xielu", rope_theta=ABSENT,
                      rope_parameters={**LLAMA3, "rope_theta": 12000000.0}),
    "gpt2": family("GPT2LMHeadModel", "gpt2", _base=GPT2_BASE, _conv1d=True),
    "gpt_neox": family("GPTNeoXForCausalLM", "gpt_neox", **layer_norm(), rope_theta=ABSENT,
                       num_key_value_heads=ABSENT, hidden_act="gelu"),
    "starcoder2": family("Starcoder2ForCausalLM", "starcoder2", **layer_norm("norm_epsilon"),
                         hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True),
    "phi": family("PhiForCausalLM", "phi", **layer_norm(), hidden_act="gelu_new"),
    "stablelm": family("StableLmForCausalLM", "stablelm", **layer_norm()),
    "nemotron": family("NemotronForCausalLM", "nemotron", **layer_norm("norm_eps"), _norm_offset=0.0,
                       hidden_act="relu2"),
}

UNTIED = {"tie_word_embeddings": False}
BIASES = {"attention_bias": True}
NESTED = {"rope_theta": ABSENT, "rope_local_base_freq": ABSENT, "rope_parameters": {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}}

# What every family has: full precision, two stored types and a quantized form.
COMMON = [("base", {}, kind("f32")), ("bf16", {}, kind("bf16")),
          ("affine4_g64", WIDE, affine(4, 64, "bf16"))]
GPT2_WIDE = {"n_embd": 128, "n_layer": 2}

LONG = {"rope_type": "longrope", "short_factor": [1.0 + i / 8 for i in range(8)],
        "long_factor": [1.5 + i / 2 for i in range(8)]}
SIX = ["sliding_attention", "full_attention", "sliding_attention"] * 2

SWITCHES = {
    "gemma4": [("shared_kv", {"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "layer_types": SIX}),
               ("key_is_value", {"attention_k_eq_v": True, "num_global_key_value_heads": 1, "layer_types": SIX}),
               ("key_is_value_same_heads", {"attention_k_eq_v": True, "num_key_value_heads": 4}),
               ("no_layer_inputs", {"hidden_size_per_layer_input": 0, **BIASES}),
               ("cap", {"final_logit_softcapping": 3.0, **UNTIED}),
               ("rope", {"rope_parameters": {
                   "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 50000.0},
                   "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}})],
    "gemma": [("legacy_gelu", {"hidden_act": "gelu"}), ("biases", BIASES), ("untied", {"tie_word_embeddings": False}),
              ("rope_linear", {"rope_scaling": {"type": "linear", "factor": 4.0}})],
    "gemma2": [("small_caps", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, **UNTIED}),
               ("no_caps", {"attn_logit_softcapping": None, "final_logit_softcapping": None, **UNTIED}),
               ("layer_types", {**LISTED, **BIASES}), ("scalar", {"query_pre_attn_scalar": 7, "head_dim": 16}), ("head_scale", {"query_pre_attn_scalar": 24})],
    "gemma3": [("rope_linear", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}), ("nested_rope", NESTED),
               ("layer_types", {**LISTED, **BIASES}),
               ("cap", {"final_logit_softcapping": 3.0, **UNTIED}),
               ("pattern_6", {"num_hidden_layers": 6, "sliding_window_pattern": ABSENT}),
               ("head_scale", {"query_pre_attn_scalar": 24, "num_hidden_layers": 6, "sliding_window_pattern": ABSENT})],
    "phi3": [("longrope_short", {"original_max_position_embeddings": 256, "rope_scaling": LONG}),
             ("longrope_long", {"original_max_position_embeddings": 32, "rope_scaling": {**LONG, "type": "su"}}),
             ("longrope_factor", {"original_max_position_embeddings": 16, "partial_rotary_factor": 0.5, "rope_scaling": {
                 **LONG, "short_factor": LONG["short_factor"][:4], "long_factor": LONG["long_factor"][:4],
                 "attention_factor": 1.25}}),
             ("window", {"sliding_window": 9}), ("partial", {"partial_rotary_factor": 0.5}),
             ("tied", {"tie_word_embeddings": True, "num_key_value_heads": 4})],
    "smollm3": [("listed", {"no_rope_layers": [1, 0, 0, 1]}), ("interval_2", {"no_rope_layer_interval": 2}),
                ("window", {"use_sliding_window": True, "sliding_window": 9}),
                ("layer_types", {"use_sliding_window": True, "sliding_window": 9, **LISTED}),
                ("biases", {**BIASES, "mlp_bias": True})],
    "olmo": [("clip_qkv", {"clip_qkv": 0.8}), ("biases", BIASES)],
    "olmo2": [("biases", BIASES), ("grouped", {"num_key_value_heads": 1, "hidden_size": 96})],
    "olmo3": [("yarn", {"rope_scaling": {**YARN, "attention_factor": 1.2}}), ("layer_types", {**LISTED, **BIASES}),
              ("nested_rope", {k: v for k, v in NESTED.items() if k != "rope_local_base_freq"})],
    "granite": [("biases", {**BIASES, "mlp_bias": True}), ("plain", {
        "embedding_multiplier": ABSENT, "logits_scaling": ABSENT, "residual_multiplier": ABSENT})],
    "minicpm": [("plain", {"scale_emb": 1.0, "dim_model_base": 64, "scale_depth": 1.0})],
    "cohere": [("qk_norm", {"use_qk_norm": True}), ("biases", BIASES), ("logit_scale", {"logit_scale": 0.5})],
    "cohere2": [("pattern_2", {"sliding_window_pattern": 2}), ("layer_types", {**LISTED, **BIASES}),
                ("logit_scale", {"logit_scale": 1.0})],
    "glm": [("no_bias", {"attention_bias": False}), ("whole_heads", {"partial_rotary_factor": 1.0})],
    "glm4": [("no_bias", {"attention_bias": False}), ("whole_heads", {"partial_rotary_factor": 1.0})],
    "exaone4": [("layer_types", LISTED), ("pattern_2", {"sliding_window_pattern": 2}),
                ("no_window", {"sliding_window": None, "layer_types": ["full_attention"] * 4})],
    "seed_oss": [("no_bias", {"attention_bias": False}), ("more_biases", {"attention_out_bias": True, "mlp_bias": True})],
    "ernie4_5": [("biases", {"use_bias": True})],
    "hunyuan_v1_dense": [("alpha", {"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}}),
                         ("biases", BIASES)],
    "helium": [("biases", {**BIASES, "mlp_bias": True})],
    "internlm2": [("biases", {"bias": True}),
                  ("rope_dynamic", {"max_position_embeddings": 48, "rope_scaling": {"type": "dynamic", "factor": 2.0}})],
    "internlm3": [("biases", {"qkv_bias": True, "bias": True}),
                  ("rope_dynamic", {"max_position_embeddings": 48, "rope_scaling": {"type": "dynamic", "factor": 4.0}})],
    "ministral3": [("window", {"sliding_window": 9})],
    "apertus": [("biases", BIASES), ("relu2", {"hidden_act": "relu2"})],
    "gpt2": [("n_inner", {"n_inner": 96}), ("gelu", {"activation_function": "gelu", "layer_norm_epsilon": 1e-3}),
             ("unscaled", {"scale_attn_weights": False}), ("short", {"n_positions": 104})],
    "gpt_neox": [("sequential", {"use_parallel_residual": False}), ("rotary", {"rotary_pct": 0.5, "rotary_emb_base": 500}),
                 ("no_bias", {"attention_bias": False}), ("whole_heads", {"rotary_pct": 1.0, "hidden_act": "gelu_new"})],
    "starcoder2": [("window", {"sliding_window": 9}), ("no_bias", {"use_bias": False}),
                   ("untied", {"tie_word_embeddings": False})],
    "phi": [("qk_norm", {"qk_layernorm": True}), ("partial", {"partial_rotary_factor": 0.25, "num_key_value_heads": 4})],
    "stablelm": [("parallel", {"use_parallel_residual": True}), ("qk_norm", {"qk_layernorm": True}),
                 ("biases", {"use_qkv_bias": True}), ("partial", {"partial_rotary_factor": 0.5})],
    "nemotron": [("biases", {**BIASES, "mlp_bias": True}), ("whole_heads", {"partial_rotary_factor": 1.0, "head_dim": 24})],
}

DENSE_VARIANTS = []
for name in DENSE_FAMILIES:
    for variant, changes, storage in COMMON:
        if name == "gpt2" and changes is WIDE:
            changes = GPT2_WIDE
        elif changes is WIDE and "head_dim" in DENSE_FAMILIES[name]:
            changes = {**changes, "head_dim": 32}
        if name == "gemma4" and storage["kind"] == "affine":
            changes = {**changes, "hidden_size_per_layer_input": 64}
        DENSE_VARIANTS.append((name, variant, changes, storage))
    DENSE_VARIANTS += [(name, variant, changes, kind("f32")) for variant, changes in SWITCHES[name]]
