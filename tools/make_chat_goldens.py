#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/goldens/chat/*.json with Hugging Face's `transformers` and `jinja2` (pip install transformers jinja2).

tests/goldens/chat/templates/ has the chat templates of real models; its README.md lists their sources. From these and
from the lists in chat_golden_cases.py it makes:
- cases.json: small templates. `template`, `input` (variables), and `expected` or `error` (what Jinja says).
- conversations.json: `inputs` by name; `rendered`: for each template file the result for each input: a text, or null
  for an error, or `#` with the FNV-1a hash of a long text; `spans`: the bytes of generation blocks.
- tokenizer.json: a byte-level BPE over the texts of the conversations, which puts <s> before a text.
- masks.json: `ids` and `mask` (return_assistant_tokens_mask) of conversations with templates that have generation
  blocks.
- texts.json: ids of `prompt`, and of `prompt` and `completion` as one text, as the tokenizer's call gives them.
"""
import datetime
import json
from pathlib import Path

import transformers.utils.chat_template_utils as chat
from chat_golden_cases import CASES, INPUTS, SPECIAL_TOKENS, TEXTS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
FOLDER = GOLDENS / "chat"
LONG_TEXT = 700


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 4, 15, 6, 7)


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def render(template, variables):
    """The text and the positions of generation blocks in bytes, or the error."""
    variables = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False, **variables}
    compiled = chat._compile_jinja_template(template)
    variables["messages"] = chat._alias_reasoning_fields(json.loads(json.dumps(variables["messages"])))
    text, spans = chat._render_with_assistant_indices(compiled_template=compiled, **variables)
    return text, [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def make_cases():
    cases = []
    for template, variables in CASES:
        case = {"template": template, "input": variables}
        try:
            case["expected"], spans = render(template, variables)
            if spans:
                case["spans"] = spans
        except Exception as error:  # any exception means that the template is wrong
            case["error"] = f"{type(error).__name__}: {error}"[:200]
        cases.append(case)
    return cases


def make_conversations():
    rendered, spans = {}, {}
    for path in sorted((FOLDER / "templates").glob("*.jinja")):
        template = path.read_bytes().decode()
        for name, variables in INPUTS.items():
            try:
                text, found = render(template, {**SPECIAL_TOKENS, **variables})
                rendered.setdefault(path.stem, {})[name] = text if len(text) <= LONG_TEXT else "#" + fnv(text)
                if found:
                    spans.setdefault(path.stem, {})[name] = found
            except Exception:
                rendered.setdefault(path.stem, {})[name] = None
    return {"special_tokens": SPECIAL_TOKENS, "inputs": INPUTS, "rendered": rendered, "spans": spans}


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=names, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([json.dumps(INPUTS, ensure_ascii=False)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                             special_tokens=[("<s>", 0)])
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    return PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer.json"), **SPECIAL_TOKENS)


def make_texts(tokenizer):
    return [{"prompt": prompt, "completion": completion, "prompt_ids": tokenizer(prompt)["input_ids"],
             "ids": tokenizer(prompt + completion)["input_ids"]} for prompt, completion in TEXTS]


def make_masks(tokenizer):
    masks = []
    for path in sorted((FOLDER / "templates").glob("*.jinja")):
        template = path.read_bytes().decode()
        if "generation %}" not in template:
            continue
        for name, variables in INPUTS.items():
            options = {key: value for key, value in variables.items() if key != "messages"}
            try:
                made = tokenizer.apply_chat_template(variables["messages"], chat_template=template, tokenize=True,
                                                     return_dict=True, return_assistant_tokens_mask=True, **options)
            except Exception:
                continue
            masks.append({"template": path.stem, "input": name, "ids": made["input_ids"],
                          "mask": "".join(map(str, made["assistant_masks"]))})
    return masks


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(text + "\n")
    print(name, len(text.encode()))


def main():
    chat.datetime = FixedClock
    write("cases", make_cases())
    write("conversations", make_conversations())
    tokenizer = make_tokenizer()
    write("masks", make_masks(tokenizer))
    write("texts", make_texts(tokenizer))


if __name__ == "__main__":
    main()
