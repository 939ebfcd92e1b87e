#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that adapter folders written by Gradmill load in peft and give the logits of the goldens.

    GRADMILL_PEFT_OUT=/tmp/peft_out build/tests/adapters_test --gtest_filter='*RoundTrip*'
    tools/check_peft_folder.py /tmp/peft_out
Each sub-folder is named after a case of make_adapter_goldens.py.
"""
import argparse
import sys
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file

from make_adapter_goldens import CASES


def largest_difference(folder, golden):
    base, _ = CASES[folder.name][0]()
    base.load_state_dict({key: value for key, value in golden.items() if key in base.state_dict()}, strict=False)
    model = PeftModel.from_pretrained(base, folder).eval()
    with torch.no_grad():
        logits = model(input_ids=golden["input_ids"].long()).logits
    return (logits - golden["logits"]).abs().max().item() / golden["logits"].abs().max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    goldens = Path(__file__).resolve().parent.parent / "tests/goldens/adapters"
    failed = False
    folders = sorted(path for path in parser.parse_args().folder.iterdir() if path.is_dir())
    for folder in folders:
        difference = largest_difference(folder, load_file(goldens / f"{folder.name}.safetensors"))
        failed |= not difference < 1e-5
        print(f"{folder.name}: {difference:.2e} {'ok' if difference < 1e-5 else 'DIFFERENT'}")
    if not folders:
        print("no folders there")
    return 1 if failed or not folders else 0


if __name__ == "__main__":
    sys.exit(main())
