"""`bertwright push`: send a model's files to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bertwright.cli.options import Flag, Json
from bertwright.cli.output import print_fields, print_json, print_table
from bertwright.console import say


def push(
    model: Annotated[Path, Parameter(name="RUN")],
    to: Annotated[str, Parameter(name="REPOSITORY")],
    *,
    send: Flag = False,
    private: Flag = False,
    message: str = "Upload a model of Bertwright",
    json: Json = False,
) -> None:
    """List the files that would be sent to the Hugging Face hub; with --send, send them.

    They are the configuration, weights, heads, tokenizer and card of the newest checkpoint. The
    account is that of `hf auth login` or HF_TOKEN.

    Args:
        model: A run, a checkpoint or a folder of a model.
        to: hf:ORG/NAME; the repository is created if it does not exist.
        send: Send the files; otherwise they are only listed, which needs no network.
        private: If the repository is created, make it private.
        message: Message of the commit.
    """
    from bertwright.checkpoint.huggingface.push import push as send_files

    done = send_files(model, to, send=send, private=private, message=message)
    if json:
        print_json(vars(done))
        return
    print_table(("file", "bytes"), [(name, f"{size:,}") for name, size in done.files.items()])
    total = f"{len(done.files)} files, {sum(done.files.values()):,} bytes"
    where = done.url or "nothing yet"
    print_fields({"from": done.folder, "to": done.repository, "size": total, "sent": where})
    if not send:
        say("nothing was sent: add --send")
