"""The command line: its verbs, how they are read and run, and their exit codes.

How to add a verb
-----------------
1. Write `cli/VERB.py` with one function per verb. At its top import the standard library, cyclopts,
   `bertwright.config.*`, `bertwright.errors`, `bertwright.console` and `bertwright.cli.*` only;
   import torch, numpy and everything heavy inside the function, so that `--help` and errors of
   usage take no time.
2. Add a line for it to a section of `_SECTIONS` below, and examples to `cli/examples.py`.

A verb has a few options of its own, which its docstring explains (`cli/fill.py`), or takes a whole
configuration (`cli/serve.py`): every key of the dataclass is an option, the key's docstring is its
help, keys of nested sections are written with dots, and `--config FILE.toml` holds the same keys.

A verb raises the errors of `bertwright.errors`; it never prints them and never calls `sys.exit`. It
may return an exit code. `EPILOGUE` lists the exit codes; in addition, 141 means that the reader of
standard output has closed it. `sections.py` lists the options that `--help` shows; the others are
shown by `--help-all` only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from cyclopts import App, Parameter

from bertwright.cli.examples import epilogue
from bertwright.cli.output import complain
from bertwright.cli.reading import complete, read
from bertwright.cli.rewriting import with_options, with_value
from bertwright.cli.sections import options_of, verb_section
from bertwright.cli.variants import variant_of
from bertwright.console import say
from bertwright.errors import BertwrightError, DataError
from bertwright.process_settings import bound_threads
from bertwright.version import __version__

_DATA = {
    "tokenizer train": ("tokenizer:train", "Train a vocabulary on a corpus."),
    "tokenizer inspect": ("tokenizer:inspect", "Show how a text is split into tokens, and why."),
    "tokenizer extend": ("tokenizer:extend", "Add words of a corpus to a model's vocabulary."),
    "data build": ("data:build", "Turn a corpus into shards for training."),
    "data check": ("data:check", "Check shards: what is wrong and what to do."),
    "data stories": ("stories:generate", "Write stories with questions, for memory networks."),
    "data trees": ("parse:trees", "Turn a treebank into shards, to train a parser on."),
    "mine": ("mine:mine", "Find hard negatives, to train vectors on."),
}
_TRAIN = {
    "quickstart": ("quickstart:quickstart", "A small BERT and its page, of this computer's text."),
    "compare": ("compare:verb_for", "Compare systems, n-grams to BERT, on your text and labels."),
    "pretrain": ("pretrain:verb_for", "Pre-train a model on shards."),
    "finetune": ("finetune:verb_for", "Fine-tune a model on labelled files: one task or several."),
    "glue": ("glue:glue", "Fine-tune on the tasks of GLUE and print the table."),
}
_USE = {
    "predict": ("predict:predict", "Predict with a fine-tuned model: one JSON line per input."),
    "embed": ("embed:embed", "Turn texts into vectors."),
    "whiten": ("whiten:whiten", "Fit a whitening of vectors, for embed to apply."),
    "similar": ("similar:similar", "Find the texts nearest to a query."),
    "fill": ("fill:fill", "Predict the [MASK] tokens of a text."),
    "next-sentence": ("next_sentence:next_sentence", "Predict whether one text follows another."),
    "generate": ("generate:generate", "Continue prompts with a language model."),
    "translate": ("translate:translate", "Translate texts with a translation model; BLEU."),
    "answer": ("stories:answer", "Answer questions about stories by a memory network."),
    "parse": ("parse:parse", "Parse sentences into constituency trees."),
}
_LOOK = {
    "report": ("report:report", "Write the HTML page of a run: curves and metrics."),
    "evaluate": ("evaluate:evaluate", "Evaluate a fine-tuned model on labelled data."),
    "evaluate-vectors": ("evaluate_vectors:evaluate_vectors", "Evaluate vectors on text pairs."),
    "evaluate-search": ("evaluate_search:evaluate_search", "Evaluate vectors by retrieval."),
    "perplexity": ("perplexity:perplexity", "Score text by language models, alone or mixed."),
    "attention": ("attention:attention", "Show what attends to what, in a text or over a corpus."),
    "senses": ("senses:senses", "Show how a model separates the senses of a word."),
    "plot": ("plot:plot", "Draw texts on a page, similar ones near each other."),
    "words nearest": ("words:nearest", "Show the words nearest to a word."),
    "words analogy": ("words:analogy", "Show the words that complete an analogy."),
    "words evaluate": ("words:evaluate", "Evaluate word vectors by similarities and analogies."),
    "inspect": ("inspect:inspect", "Show what a model's folder contains."),
    "info": ("info:info", "Show versions, hardware and installed extras."),
}
_SERVE = {
    "serve": ("serve:serve", "Serve models over HTTP: vectors, and every task head."),
    "export onnx": ("export:onnx", "Export a model to ONNX Runtime."),
    "export openvino": ("export:openvino", "Export a model to OpenVINO."),
    "convert": ("convert:convert", "Convert a model: Hugging Face, TensorFlow, word vectors, ..."),
}
_SECTIONS = {"Data": _DATA, "Train": _TRAIN, "Use": _USE, "Look": _LOOK, "Serve": _SERVE}
"""Title in the list of verbs -> command -> (file and function in `cli`, one line of help)."""

VERBS = {
    verb: (f"bertwright.cli.{target}", line)
    for verbs in _SECTIONS.values()
    for verb, (target, line) in verbs.items()
}
"""Command -> (import path, one line of help). These are cyclopts' own form of a command that is
imported when it is called, so that `--help` waits for no verb; a test resolves each of them."""

GROUPS = {
    "tokenizer": "Train and inspect tokenizers.",
    "data": "Build and check training data.",
    "words": "Look up, compare and evaluate word vectors.",
    "export": "Export a model to another runtime.",
}

EPILOGUE = (
    "Every verb takes --help, --help-all (every option), and --debug (the traceback of an error). "
    "Exit codes: 0 ok, 1 failed run, 2 usage or configuration, 3 missing extra, 4 bad data, "
    "5 integrity, 130 or 143 interrupted."
)
OPTIONS = (
    "bertwright itself also takes --version, and --install-completion (for bash, zsh or fish)."
)
"""What the epilogue of the list of verbs says of the options that it hides."""


def make_app(
    verbs: dict[str, tuple[str, str]] = VERBS, words: Sequence[str] = (), everything: bool = False
) -> App:
    """Return the application with these verbs, for the command line `words`.

    With `everything` the help shows all options. The options of a verb whose function is `verb_for`
    depend on `words`: those of `pretrain` on the model, of `finetune` and `compare` on the kind of
    task.
    """
    app = App(
        name="bertwright",
        help="Train, fine-tune and serve language models on your text, from n-grams to BERT.",
        help_epilogue=f"{EPILOGUE} {OPTIONS}",
        version=lambda: f"bertwright {__version__}",
        version_flags=["--version"],
        help_format="plaintext",  # "[MASK]" and "*" are words here, not markup
        default_parameter=Parameter(negative_iterable=(), negative_none=()),
        config=complete,
        suppress_keyboard_interrupt=False,
    )
    titled = {title: verb_section(title, index) for index, title in enumerate(_SECTIONS)}
    sections = {verb: titled[title] for title, verbs in _SECTIONS.items() for verb in verbs}
    groups: dict[str, App] = {}
    for index, (command, (target, line)) in enumerate(verbs.items()):
        group, _, name = command.rpartition(" ")
        if group and group not in groups:
            text = GROUPS.get(group, "")
            groups[group] = App(name=group, help=text, sort_key=index, group=sections.get(command))
            app.command(groups[group])
        verb: Any = target
        module, _, function = target.partition(":")
        if [command] == words[:1] and function == "verb_for":
            verb = import_module(module).verb_for(words)
        variant = variant_of(verb)
        after = "\n\n".join(filter(None, [epilogue(command), EPILOGUE, variant.epilogue]))
        (groups[group] if group else app).command(
            verb,
            name=name,
            help=line,
            sort_key=index,
            help_epilogue=after,
            group=None if group else sections.get(command),
            group_parameters=options_of(command, everything, variant),
        )
    app.register_install_completion_command(
        help="Complete words of the command line in this shell: bash, zsh or fish (--shell).",
    )
    for option in ("--help", "--version", "--install-completion"):
        app[option].show = False  # `OPTIONS` lists them
    return app


def run(tokens: Sequence[str], verbs: dict[str, tuple[str, str]] = VERBS) -> int:
    """Run one command line and return its exit code.

    An error is printed as one message on standard error.
    """
    end = tokens.index("--") if "--" in tokens else len(tokens)
    words = [word for word in tokens[:end] if word != "--debug"]
    debug = len(words) != end
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    everything = "--help-all" in words
    words = ["--help" if word == "--help-all" else word for word in words] + list(tokens[end:])
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    bound_threads()
    try:
        verb, bound = read(make_app(verbs, words, everything), words)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            result = verb(*bound.args, **bound.kwargs)
        sys.stdout.flush()
        return result if isinstance(result, int) and not isinstance(result, bool) else 0
    except BrokenPipeError:
        # without this, Python's flush at exit would print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit):
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        if debug:
            raise
        message, exit_code = explain(error)
        retry = error.retry if isinstance(error, BertwrightError) else None
        if retry and (command := with_value(tokens, *retry)):
            message += f": {command}"
        if isinstance(error, DataError) and (command := with_options(words, error.options)):
            message += f". With what is probably meant, the command is:\n  {command}"
        complain(message)
        return exit_code


def explain(error: Exception) -> tuple[str, int]:
    """Return the message of an error and its exit code."""
    if isinstance(error, BertwrightError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        where = f": {error.filename!r}" if error.filename else ""
        return f"{error.strerror or error}{where}", BertwrightError.exit_code
    message = f"unexpected {type(error).__name__}: {error}\nThis is a bug of bertwright; "
    return message + "--debug shows where it happened.", BertwrightError.exit_code


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning of Bertwright as one line, and other warnings as Python does."""
    ours = category.__module__.partition(".")[0] == "bertwright"
    whole = warnings.formatwarning(message, category, *where[:2])
    say(f"warning: {message}" if ours else whole.rstrip("\n"))


def _terminated(number: int, frame: FrameType | None) -> Any:
    """Raise SystemExit on SIGTERM, so that unfinished files are removed as after Ctrl-C.

    Training installs a handler of its own.
    """
    complain("terminated")
    raise SystemExit(128 + number)
