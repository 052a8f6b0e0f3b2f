"""What completion reads off the source is what the schema says."""

from __future__ import annotations

import subprocess
import sys

from attnres_cli.preset.fields import choices, is_list, marker
from attnres_cli.preset.keys import keys_and_choices
from attnres_cli.preset.schema import SECTIONS, MemberOf
from attnres_cli.preset.variants import PROGRAM, all_models


def test_keys_and_choices_are_those_of_the_schema() -> None:
    expected: dict[str, set[str]] = {}
    for section in SECTIONS:
        for model in (SECTIONS[section], *all_models(section, PROGRAM).values()):
            for key, field in model.model_fields.items():
                values = set(choices(field))
                folder = marker(field, MemberOf)
                if folder is not None:
                    values |= {*folder.also, *PROGRAM.names(folder.package)}
                if field.annotation is bool:
                    values |= {"true", "false"}
                expected.setdefault(f"{section}.{key}", set()).update(set() if is_list(field) else values)
    found = keys_and_choices()
    assert {key: set(values) for key, values in found.items()} == expected
    assert set(found["residual.scheme"]) == set(PROGRAM.names("residual.schemes"))
    assert found["train.schedule"] == ("cosine", "wsd")
    assert found["train.seed"] == ()


def test_reading_them_loads_neither_torch_nor_pydantic() -> None:
    code = "import sys; from attnres_cli.preset.keys import keys_and_choices; assert keys_and_choices(); "
    code += "print({'torch', 'numpy', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
