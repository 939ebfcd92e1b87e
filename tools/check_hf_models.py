#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tiny model of every class with transformers, exports it with gradmill, and loads the result.

    python3 tools/check_hf_models.py build/gradmill [NAME...]

Weights must come back bit for bit, in fp32 and bf16, from one file and from shards, and logits must be equal; also after
a step of training with a rate of 0, which changes nothing. Models without a trainable head get a classifier's.
NAMEs select classes (any part of a name). Needs torch and transformers; exits 77 without them, and 1 if anything differs.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
try:
    import torch
    import transformers as hf
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SIZES = dict(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
DECODER = dict(SIZES, num_key_value_heads=2, head_dim=8)
CONFIGS = {
    "GPT2": hf.GPT2Config(vocab_size=300, n_positions=64, n_embd=32, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "Llama": hf.LlamaConfig(**DECODER),
    "Mistral": hf.MistralConfig(**DECODER, sliding_window=8),
    "Qwen2": hf.Qwen2Config(**{k: v for k, v in DECODER.items() if k != "head_dim"}),
    "Qwen3": hf.Qwen3Config(**DECODER),
    "Gemma3": hf.Gemma3TextConfig(**DECODER, sliding_window=16, query_pre_attn_scalar=8),
    "Olmo2": hf.Olmo2Config(**{k: v for k, v in DECODER.items() if k != "head_dim"}),
    "Bert": hf.BertConfig(**SIZES),
    "Roberta": hf.RobertaConfig(**SIZES, type_vocab_size=1),
    "XLMRoberta": hf.XLMRobertaConfig(**SIZES | dict(pad_token_id=1, bos_token_id=0), type_vocab_size=1),
    "DebertaV2": hf.DebertaV2Config(**SIZES, type_vocab_size=0, relative_attention=True, max_relative_positions=-1, position_buckets=16,
                                    norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False),
    "ModernBert": hf.ModernBertConfig(**SIZES, local_attention=16, cls_token_id=1, sep_token_id=2),
}
CLASSES = ["GPT2LMHeadModel", "GPT2ForSequenceClassification", "LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel",
           "MistralForCausalLM", "MistralForSequenceClassification",
           "Qwen2ForCausalLM", "Qwen2ForSequenceClassification", "Qwen3ForCausalLM", "Qwen3ForSequenceClassification",
           "Gemma3ForCausalLM", "Gemma3TextForSequenceClassification", "Olmo2ForCausalLM", "Olmo2ForSequenceClassification", "BertModel", "BertForMaskedLM", "BertForSequenceClassification",
           "RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "XLMRobertaForMaskedLM",
           "XLMRobertaForSequenceClassification",
           "DebertaV2Model", "DebertaV2ForMaskedLM", "DebertaV2ForSequenceClassification", "ModernBertModel", "ModernBertForMaskedLM",
           "ModernBertForSequenceClassification"]


def make_model(name, dtype):
    family = max((key for key in CONFIGS if name.startswith(key)), key=len)
    config = type(CONFIGS[family]).from_dict(CONFIGS[family].to_dict())
    if "Classification" in name:
        config.id2label = {0: "no", 1: "maybe", 2: "yes"}
        config.label2id = {label: index for index, label in config.id2label.items()}
    torch.manual_seed(3)
    model = getattr(hf, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.to(dtype)


def output_of(model):
    ids = torch.arange(3, 27).reshape(2, 12)
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def differences(binary, name, dtype, shard_size, folder):
    model = make_model(name, dtype)
    model.save_pretrained(folder / "in", max_shard_size=shard_size)
    failed = command_of(binary, "export", folder / "in", "--to", folder / "out", "--shard-gb", "0.001")
    if failed:
        return failed
    loaded, info = getattr(hf, name).from_pretrained(folder / "out", dtype=dtype, output_loading_info=True)
    wrong = [f"{kind}: {sorted(names)[:4]}" for kind, names in info.items() if names]
    state = loaded.state_dict()
    wrong += [f"{key} differs" for key, value in model.state_dict().items() if key in state and not torch.equal(value, state[key])]
    # Compared with the original as loaded by transformers: a model cast in memory has narrower rotary frequencies.
    origin = getattr(hf, name).from_pretrained(folder / "in", dtype=dtype).eval()
    if not torch.equal(output_of(origin), output_of(loaded.eval())):
        wrong.append("logits differ")
    if loaded.config.id2label != model.config.id2label:
        wrong.append("labels differ")
    return wrong


def stored(folder):
    return {key: value for file in folder.glob("*.safetensors") for key, value in load_file(file).items()}


def command_of(binary, *words):
    result = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    return [] if result.returncode == 0 else [result.stderr.strip()]


def differences_after_training(binary, name, dtype, folder):
    """The differences after a step with rate 0, which changes nothing, on the folder that differences() left."""
    if "CausalLM" in name or "LMHead" in name:
        (folder / "data.txt").write_text("The miller grinds corn by the river.\n" * 40)
        data = [f"data.path={folder / 'data.txt'}", f"data.cache={folder / 'cache'}"]
    else:
        (folder / "data.tsv").write_text("text\tlabel\n" + "corn\tno\nwheat and rye\tmaybe\nbarley\tyes\n" * 8)
        data = [f"data.path={folder / 'data.tsv'}", "data.task=classify"]
    wrong = command_of(binary, "train", f"model.path={folder / 'in'}", "data.tokenizer=byte", *data, "model.context=32",
                       "training.epochs=0", "training.steps=1", "training.batch_size=2", "optimizer.lr=0",
                       "optimizer.min_lr=0", "eval.every_epochs=0", "sample.tokens=0", "machine.device=cpu",
                       f"checkpoint.dir={folder / 'run'}")
    wrong = wrong or command_of(binary, "export", folder / "run", "--to", folder / "trained", "--dtype",
                                {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype])
    if wrong:
        return wrong
    before, after = stored(folder / "in"), stored(folder / "trained")
    replaced = ("cls.predictions.", "lm_predictions.", "lm_head.", "head.", "decoder.") if "MaskedLM" in name else ()
    if name == "RobertaModel":
        replaced = ("pooler.",)  # its classifiers have a layer of their own
    for key, value in before.items():
        found = [other for other in after if other == key or other.endswith("." + key)]
        if key.startswith(replaced):
            continue
        if len(found) != 1 or after[found[0]].dtype != value.dtype or not torch.equal(after[found[0]], value):
            wrong.append(f"{key} differs after a step that moves nothing")
    return wrong


def main():
    binary, wanted, failed = sys.argv[1], sys.argv[2:], 0
    for name in CLASSES:
        if wanted and not any(part in name for part in wanted):
            continue
        wrong = []
        for dtype, shard_size in [(torch.float32, "5GB"), (torch.bfloat16, "20KB")]:
            with tempfile.TemporaryDirectory() as folder:
                wrong += differences(binary, name, dtype, shard_size, Path(folder))
                wrong += differences_after_training(binary, name, dtype, Path(folder))
        print(f"{name}: {'; '.join(wrong) if wrong else 'equal'}")
        failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
