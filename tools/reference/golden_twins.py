"""Families that transformers lacks, as equal models of families that it has.

For each: the twin's config, the checkpoint's tensors by the twin's, and the twin's tensors from the
checkpoint's.
"""

import math



class MiniCpm:
    """Granite has the same four multipliers under names of their own."""

    @staticmethod
    def config(c):
        heads, hidden = c["num_attention_heads"], c["hidden_size"]
        return {**c, "model_type": "granite", "architectures": ["GraniteForCausalLM"],
                "embedding_multiplier": c["scale_emb"],
                "residual_multiplier": c["scale_depth"] / math.sqrt(c["num_hidden_layers"]),
                "attention_multiplier": 1 / math.sqrt(hidden / heads),
                "logits_scaling": hidden / c["dim_model_base"]}

    @staticmethod
    def shapes(c, shapes):
        return shapes

    @staticmethod
    def state(c, state):
        return state


class InternLm2:
    """Llama with the three projections in one matrix: for each key/value head its queries, key, value."""

    NAMES = [("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"),
             ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
             ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
             ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm")]

    @staticmethod
    def config(c):
        return {**c, "model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": c.get("bias", False)}

    @classmethod
    def shapes(cls, c, shapes):
        out = {}
        for name, shape in shapes.items():
            for theirs, ours in cls.NAMES:
                name = name.replace(theirs, ours)
            if "self_attn.q_proj" in name:
                rows = shape[0] // c["num_attention_heads"] * (c["num_attention_heads"] + 2 * c["num_key_value_heads"])
                out[name.replace("self_attn.q_proj", "attention.wqkv")] = (rows, *shape[1:])
            elif "self_attn" not in name:
                out[name] = shape
        return out

    @classmethod
    def state(cls, c, state):
        kv = c["num_key_value_heads"]
        group = c["num_attention_heads"] // kv
        out = {}
        for name, value in state.items():
            if "attention.wqkv" in name:
                parts = value.reshape(kv, group + 2, -1, *value.shape[1:])
                for part, rows in (("q", parts[:, :group]), ("k", parts[:, group]), ("v", parts[:, group + 1])):
                    twin = name.replace("attention.wqkv", f"self_attn.{part}_proj")
                    out[twin] = rows.reshape(-1, *value.shape[1:]).contiguous()
                continue
            for theirs, ours in cls.NAMES:
                name = name.replace(ours, theirs)
            out[name] = value
        return out


TWINS = {"minicpm": MiniCpm, "internlm2": InternLm2}
