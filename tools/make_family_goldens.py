#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files family_<name>.safetensors under tests/goldens from Hugging Face transformers, in fp32 on the CPU.

Tiny random models of every family. A file contains every parameter under its Hugging Face name and `grad.<parameter>`;
the batch without its padding: `input_ids` (N), `token_types` (N, if the model has them) and `lengths` (S); `targets`
((N) tokens, or one per sequence), `class_weights` if the loss has them; `logits` ((N, V), or one row per sequence) and
`loss`, the mean over targets. transformers ran with padding, which must not matter. The metadata's `spec.<field>`
are the fields of our TransformerSpec, `family` is the name of the family, `config` the model's own config.json.
"""
import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers as hf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from make_goldens import IGNORED, save

PAD = 0


def randomise(model):
    """Gives every parameter random values, because the zeros and ones of the usual initialisation would hide mistakes."""
    offset = 1.0 if model.config.model_type == "gemma3_text" else 0.0
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if parameter.dim() == 1:
            parameter.data = 0.2 * noise + (0.0 if name.endswith("bias") else 1.0 - offset)
        elif "embed" in name or "wte" in name or "wpe" in name:
            parameter.data = 0.4 * noise
        else:
            parameter.data = noise / math.sqrt(parameter.shape[-1])


def rope(theta=10000.0, **scaling):
    return {"rope_type": scaling.pop("kind", "default"), "rope_theta": theta} | scaling


# Each function returns a model and the fields of our TransformerSpec that differ from the defaults.

def decoder_spec(config, **more):
    return dict(
        vocab=config.vocab_size, layers=config.num_hidden_layers, width=config.hidden_size,
        heads=config.num_attention_heads, kv_heads=config.num_key_value_heads, head_dim=config.head_dim,
        mlp_width=config.intermediate_size, max_positions=config.max_position_embeddings, norm="rms",
        norm_eps=config.rms_norm_eps, tied=config.tie_word_embeddings) | more


def llama(head="causal_lm", labels=0, rope_parameters=None, context=32, tied=True, layers=2, **spec):
    config = hf.LlamaConfig(
        vocab_size=23, max_position_embeddings=context, hidden_size=16, intermediate_size=20, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, hidden_act="silu", rms_norm_eps=1e-5,
        rope_parameters=rope_parameters or rope(), tie_word_embeddings=tied, pad_token_id=PAD, num_labels=max(labels, 1),
        attn_implementation="eager")
    kind = hf.LlamaForCausalLM if head == "causal_lm" else hf.LlamaForSequenceClassification
    return kind(config), dict(family="llama"), decoder_spec(config, activation="swiglu", **spec)


def qwen2():
    config = hf.Qwen2Config(
        vocab_size=23, max_position_embeddings=32, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", rms_norm_eps=1e-6, rope_parameters=rope(1e6),
        tie_word_embeddings=False, pad_token_id=PAD, attn_implementation="eager", layer_types=["full_attention"] * 2)
    config.head_dim = 4
    spec = decoder_spec(config, activation="swiglu", qkv_bias=True, rope_theta=1e6)
    return hf.Qwen2ForCausalLM(config), dict(family="qwen2"), spec


def qwen3_window():
    """Two layers; only the second has a window, as with Qwen's max_window_layers."""
    config = hf.Qwen3Config(
        vocab_size=23, max_position_embeddings=32, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, hidden_act="silu", rms_norm_eps=1e-6,
        rope_parameters=rope(1e6), tie_word_embeddings=True, pad_token_id=PAD, attn_implementation="eager",
        use_sliding_window=True, sliding_window=3, max_window_layers=1)
    spec = decoder_spec(config, activation="swiglu", qk_norm=True, rope_theta=1e6, local_rope_theta=1e6, window=3,
                        local_layers="01")
    return hf.Qwen3ForCausalLM(config), dict(family="qwen3"), spec


def gemma3(head="causal_lm", labels=0, softcap=None, scaled=False):
    full = rope(1e6, kind="linear", factor=4.0) if scaled else rope(1e6)
    config = hf.Gemma3TextConfig(
        vocab_size=23, max_position_embeddings=32, hidden_size=16, intermediate_size=20, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=1, head_dim=8, hidden_activation="gelu_pytorch_tanh",
        rms_norm_eps=1e-6, query_pre_attn_scalar=11, sliding_window=4, final_logit_softcapping=softcap,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": full, "sliding_attention": rope(1e4)}, pad_token_id=PAD, bos_token_id=2,
        eos_token_id=1, tie_word_embeddings=True, num_labels=max(labels, 1), attn_implementation="eager")
    kind = hf.Gemma3ForCausalLM if head == "causal_lm" else hf.Gemma3TextForSequenceClassification
    spec = decoder_spec(
        config, activation="geglu_tanh", norm_placement="around", norm_offset=1, qk_norm=True, rope_theta=1e6,
        local_rope_theta=1e4, window=4, local_layers="110", attention_scale=11 ** -0.5, embedding_scale=4,
        logit_softcap=softcap or 0)
    if scaled:
        spec |= {"rope_scaling.kind": "linear", "rope_scaling.factor": 4}
    return kind(config), dict(family="gemma3"), spec


def mistral(kind, labels=1):
    config = hf.MistralConfig(
        vocab_size=23, max_position_embeddings=32, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", rms_norm_eps=1e-5, sliding_window=5,
        rope_parameters=rope(), tie_word_embeddings=False, pad_token_id=PAD, num_labels=labels,
        attn_implementation="eager")
    return kind(config), dict(family="mistral"), decoder_spec(config, activation="swiglu", window=5)


def olmo2(kind, labels=1):
    config = hf.Olmo2Config(
        vocab_size=23, max_position_embeddings=32, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", rms_norm_eps=1e-5, rope_parameters=rope(5e5),
        tie_word_embeddings=False, pad_token_id=PAD, num_labels=labels, attn_implementation="eager")
    config.head_dim = 4
    spec = decoder_spec(config, activation="swiglu", norm_placement="output", qk_norm=True, qk_norm_all_heads=True,
                        rope_theta=5e5)
    return kind(config), dict(family="olmo2"), spec


def gpt2_classifier():
    config = hf.GPT2Config(
        vocab_size=23, n_positions=24, n_embd=16, n_layer=2, n_head=2, activation_function="gelu_new", resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, pad_token_id=PAD, num_labels=2, attn_implementation="eager")
    spec = dict(vocab=23, layers=2, width=16, heads=2, mlp_width=64, max_positions=24, positions="learned", norm="layer",
                norm_eps=1e-5, activation="gelu_tanh", qkv_bias=True, out_bias=True, mlp_bias=True)
    return hf.GPT2ForSequenceClassification(config), dict(family="gpt2"), spec


def encoder_spec(config, **more):
    return dict(
        vocab=config.vocab_size, layers=config.num_hidden_layers, width=config.hidden_size,
        heads=config.num_attention_heads, mlp_width=config.intermediate_size,
        max_positions=config.max_position_embeddings, norm="layer", embedding_norm=True, causal=False) | more


POST_NORM = dict(norm_placement="after", final_norm=False, activation="gelu_erf", qkv_bias=True, out_bias=True,
                 mlp_bias=True, pooling="first", classifier_bias=True)


def bert(kind, labels=2):
    config = hf.BertConfig(
        vocab_size=29, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=20,
        type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=PAD, num_labels=labels, attn_implementation="eager")
    spec = encoder_spec(config, positions="learned", norm_eps=1e-12, token_types=2, pooler="tanh", **POST_NORM)
    return kind(config), dict(family="bert"), spec


def roberta(kind, labels=3):
    """Positions start at pad_token_id + 1."""
    of_kind = hf.XLMRobertaConfig if kind.__name__.startswith("XLM") else hf.RobertaConfig
    config = of_kind(
        vocab_size=29, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=20,
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=PAD, num_labels=labels, attn_implementation="eager")
    spec = encoder_spec(config, positions="learned", norm_eps=1e-5, token_types=1, pooler="tanh", **POST_NORM)
    offset = PAD + 1
    spec |= dict(position_offset=offset, max_positions=config.max_position_embeddings - offset)
    return kind(config), dict(family=config.model_type), spec


def deberta(kind, labels=3, **changes):
    config = hf.DebertaV2Config(**(dict(
        vocab_size=29, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=24,
        type_vocab_size=0, layer_norm_eps=1e-7, pad_token_id=PAD, num_labels=labels, relative_attention=True,
        position_buckets=4, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
        position_biased_input=False, pooler_dropout=0.0, pooler_hidden_act="gelu", cls_dropout=0.0) | changes))
    spec = encoder_spec(config, norm_eps=1e-7, pooler="gelu", **POST_NORM)
    spec |= {"positions": "learned" if config.position_biased_input else "none", "token_types": config.type_vocab_size,
             "disentangled.buckets": config.position_buckets if config.position_buckets > 0 else 24,
             "disentangled.max_distance": 24,
             "disentangled.log_buckets": config.position_buckets > 0,
             "disentangled.content_to_position": "c2p" in config.pos_att_type,
             "disentangled.position_to_content": "p2c" in config.pos_att_type,
             "disentangled.share_keys": config.share_att_key,
             "disentangled.norm_table": config.norm_rel_ebd == "layer_norm"}
    return kind(config), dict(family="deberta_v2"), spec


def modernbert(kind, labels=3, pooling="cls"):
    config = hf.ModernBertConfig(
        vocab_size=29, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=20,
        hidden_activation="gelu", max_position_embeddings=32, norm_eps=1e-5, norm_bias=False, pad_token_id=PAD,
        local_attention=6, classifier_pooling=pooling, classifier_bias=False, decoder_bias=True, num_labels=labels,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={"full_attention": rope(1.6e5), "sliding_attention": rope(1e4)},
        embedding_dropout=0.0, attention_dropout=0.0, mlp_dropout=0.0, classifier_dropout=0.0,
        attn_implementation="eager", reference_compile=False)
    spec = encoder_spec(
        config, norm_eps=1e-5, norm_bias=False, first_norm=False, activation="geglu_erf", rope_theta=1.6e5,
        local_rope_theta=1e4, window=6, local_layers="011", pooler="gelu_norm", mlm_transform_bias=False,
        classifier_bias=True, pooling="first" if pooling == "cls" else "mean")
    return kind(config), dict(family="modernbert"), spec


SCALED = dict(context=64, layers=1)
LLAMA3 = dict(kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(kind="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.5)

MODELS = {
    "llama_linear": lambda: llama(rope_parameters=rope(kind="linear", factor=3.0), **SCALED,
                                  **{"rope_scaling.kind": "linear", "rope_scaling.factor": 3}),
    # Made for 8 positions, used with 16: the longest sequence uses all of them, as our tables expect.
    "llama_dynamic": lambda: llama(rope_parameters=rope(kind="dynamic", factor=2.0), context=8, layers=1,
                                   **{"max_positions": 16, "rope_scaling.kind": "dynamic", "rope_scaling.factor": 2,
                                      "rope_scaling.original_context": 8}),
    "llama_llama3": lambda: llama(rope_parameters=rope(100.0, **LLAMA3), **SCALED,
                                  **{"rope_theta": 100, "rope_scaling.kind": "llama3", "rope_scaling.factor": 8,
                                     "rope_scaling.original_context": 32}),
    "llama_yarn": lambda: llama(rope_parameters=rope(100.0, **YARN), **SCALED,
                                **{"rope_theta": 100, "rope_scaling.kind": "yarn", "rope_scaling.factor": 4,
                                   "rope_scaling.original_context": 16, "rope_scaling.beta_fast": 2,
                                   "rope_scaling.beta_slow": 0.5}),
    "llama_packed": lambda: llama(tied=False),
    "llama_regression": lambda: llama("classifier", 1),
    "mistral": lambda: mistral(hf.MistralForCausalLM),
    "mistral_classifier": lambda: mistral(hf.MistralForSequenceClassification, 3),
    "olmo2": lambda: olmo2(hf.Olmo2ForCausalLM),
    "olmo2_classifier": lambda: olmo2(hf.Olmo2ForSequenceClassification, 2),
    "gpt2_classifier": gpt2_classifier,
    "qwen2": qwen2,
    "qwen3_window": qwen3_window,
    "gemma3": lambda: gemma3(softcap=5.0),
    "gemma3_scaled": lambda: gemma3(scaled=True),
    "gemma3_classifier": lambda: gemma3("classifier", 3),
    "bert_classifier": lambda: bert(hf.BertForSequenceClassification, 3),
    "bert_regression": lambda: bert(hf.BertForSequenceClassification, 1),
    "bert_mlm": lambda: bert(hf.BertForMaskedLM),
    "roberta_classifier": lambda: roberta(hf.RobertaForSequenceClassification),
    "roberta_mlm": lambda: roberta(hf.RobertaForMaskedLM),
    "xlm_roberta_classifier": lambda: roberta(hf.XLMRobertaForSequenceClassification, 2),
    "deberta_classifier": lambda: deberta(hf.DebertaV2ForSequenceClassification),
    "deberta_unshared": lambda: deberta(hf.DebertaV2ForSequenceClassification, 1, share_att_key=False,
                                        norm_rel_ebd="none", type_vocab_size=2, position_biased_input=True),
    "deberta_c2p": lambda: deberta(hf.DebertaV2ForSequenceClassification, 2, pos_att_type=["c2p"], position_buckets=-1),
    "deberta_mlm": lambda: deberta(hf.DebertaV2ForMaskedLM),
    "modernbert_classifier": lambda: modernbert(hf.ModernBertForSequenceClassification),
    "modernbert_mean": lambda: modernbert(hf.ModernBertForSequenceClassification, 2, "mean"),
    "modernbert_mlm": lambda: modernbert(hf.ModernBertForMaskedLM),
}

LENGTHS = [9, 16, 1, 12]


def padded_batch(spec):
    """Sequences of several lengths, padded on the right to the longest. Real tokens never equal the padding token."""
    longest = max(LENGTHS)
    tokens = torch.randint(1, spec["vocab"], (len(LENGTHS), longest))
    mask = torch.arange(longest)[None, :] < torch.tensor(LENGTHS)[:, None]
    tokens[~mask] = PAD
    batch = dict(input_ids=tokens, attention_mask=mask.long())
    if spec.get("token_types", 0) > 1:
        second = torch.arange(longest)[None, :] >= (torch.tensor(LENGTHS)[:, None] + 1) // 2
        batch["token_type_ids"] = (second & mask).long()
    return batch, mask


def token_targets(tokens, mask, causal):
    targets = torch.full_like(tokens, IGNORED)
    if causal:
        targets[:, :-1] = torch.where(mask[:, 1:], tokens[:, 1:], IGNORED)
    else:
        chosen = mask & (torch.rand(tokens.shape) < 0.4)
        targets[chosen] = torch.randint(1, int(tokens.max()) + 1, tokens.shape)[chosen]
    return targets


def classifier_loss(logits, labels, weights):
    if logits.shape[1] == 1:
        return F.mse_loss(logits[:, 0], labels)
    return F.cross_entropy(logits, labels, weight=weights)


def make_golden(folder, name, build):
    torch.manual_seed(3)
    model, about, spec = build()
    model.eval()
    randomise(model)
    batch, mask = padded_batch(spec)
    logits = model(**batch).logits
    tensors = {"input_ids": batch["input_ids"][mask].int(), "lengths": torch.tensor(LENGTHS).int()}
    if "token_type_ids" in batch:
        tensors["token_types"] = batch["token_type_ids"][mask].int()
    if logits.dim() == 3:
        causal = spec.get("causal", True)
        spec["head"] = "causal_lm" if causal else "masked_lm"
        targets = token_targets(batch["input_ids"], mask, causal)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        tensors |= {"logits": logits[mask], "targets": targets[mask].int()}
    else:
        labels = logits.shape[1]
        spec |= dict(head="classifier", labels=labels)
        weights = torch.rand(labels) + 0.5 if labels == 3 else None
        targets = torch.randn(len(LENGTHS)) if labels == 1 else torch.randint(0, labels, (len(LENGTHS),))
        loss = classifier_loss(logits, targets, weights)
        tensors |= {"logits": logits, "targets": targets.float() if labels == 1 else targets.int()}
        if weights is not None:
            tensors["class_weights"] = weights
    loss.backward()
    tensors["loss"] = loss.reshape(1)
    for key, parameter in model.named_parameters():
        tensors[key] = parameter
        tensors[f"grad.{key}"] = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    about |= {f"spec.{key}": value for key, value in spec.items()}
    save(folder / f"family_{name}.safetensors", tensors, about, config=model.config.to_json_string(use_diff=False))


# Scalings as in released models: heads of 128 (Llama 3.1, Qwen with YaRN) and of 256 (Gemma 3).
FREQUENCIES = {
    "linear": (256, 131072, rope(1e6, kind="linear", factor=8.0)),
    "dynamic": (128, 2048, rope(1e4, kind="dynamic", factor=2.0)),
    "llama3": (128, 131072, rope(5e5, kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                 original_max_position_embeddings=8192)),
    "yarn": (128, 131072, rope(1e6, kind="yarn", factor=4.0, original_max_position_embeddings=32768)),
}


def make_frequencies(folder):
    """rope_frequencies.safetensors: <kind>, the angles of a position, and <kind>.factor, that of cosines and sines."""
    tensors = {}
    for kind, (head_dim, context, parameters) in FREQUENCIES.items():
        config = hf.LlamaConfig(head_dim=head_dim, max_position_embeddings=context, rope_parameters=parameters)
        angles, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=3 * 2048 if kind == "dynamic" else None)
        tensors |= {kind: angles, f"{kind}.factor": torch.tensor([factor])}
    save(folder / "rope_frequencies.safetensors", tensors, {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which models; all of them without names")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / "goldens")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # makes the order of every sum, and so every bit, the same in each run
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.names:
        make_frequencies(arguments.out)
    for name, build in MODELS.items():
        if not arguments.names or name in arguments.names:
            make_golden(arguments.out, name, build)


if __name__ == "__main__":
    main()
