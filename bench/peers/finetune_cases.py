# SPDX-License-Identifier: Apache-2.0
"""The fine-tuning cases that are compared: real shapes with random weights, as transformers' own configurations."""
from dataclasses import dataclass, field


def bert():
    from transformers import BertConfig
    return BertConfig(num_labels=2)


def deberta():
    from transformers import DebertaV2Config
    return DebertaV2Config(
        vocab_size=128100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type=["p2c", "c2p"], max_relative_positions=-1, position_biased_input=False, type_vocab_size=0,
        layer_norm_eps=1e-7, num_labels=2)


def gemma3_1b():
    from transformers import Gemma3TextConfig
    return Gemma3TextConfig(
        vocab_size=262144, hidden_size=1152, num_hidden_layers=26, num_attention_heads=4, num_key_value_heads=1,
        head_dim=256, intermediate_size=6912, sliding_window=512, num_labels=2, pad_token_id=0)


def qwen3_06b():
    from transformers import Qwen3Config
    return Qwen3Config(
        vocab_size=151936, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=3072, tie_word_embeddings=True)


def qwen3_8b():
    from transformers import Qwen3Config
    return Qwen3Config(
        vocab_size=151936, hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=12288)


@dataclass
class Case:
    config: object       # makes the configuration
    batch: int
    tokens: int
    classifier: bool
    adapter: str = ""    # lora, dora, or all weights
    modes: tuple = ("eager",)  # of the peer
    dropout: float = 0.0       # of the model, as its family has it
    settings: list = field(default_factory=list)  # more of ours
    must: dict = field(default_factory=dict)      # mode: least ratio of speed


CASES = {
    "bert": Case(bert, 32, 256, True, modes=("compiled",), dropout=0.1, must={"compiled": 1.6}),
    "deberta": Case(deberta, 24, 256, True, modes=("compiled",), dropout=0.1, must={"compiled": 2.0}),
    "gemma-lora": Case(gemma3_1b, 8, 512, True, "lora", ("eager", "compiled"), must={"eager": 5.0, "compiled": 1.0}),
    "gemma-dora": Case(gemma3_1b, 8, 512, True, "dora", ("eager", "compiled"), must={"eager": 7.0, "compiled": 1.7}),
    "qwen-0.6b": Case(qwen3_06b, 8, 2048, False, modes=("compiled",), must={"compiled": 1.25}),
    "qwen-8b-lora": Case(qwen3_8b, 2, 2048, False, "lora", settings=["machine.save_policy=cheap"], must={"eager": 1.5}),
    "qwen-8b-dora": Case(qwen3_8b, 2, 2048, False, "dora", settings=["machine.save_policy=cheap"], must={"eager": 2.6}),
}
