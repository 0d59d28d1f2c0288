"""`bertwright report`: write the page of a run, one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path

from bertwright.cli.options import Json
from bertwright.cli.output import PAGE, print_json, refuse_suffix
from bertwright.console import say
from bertwright.errors import BertwrightError


def report(run: Path, *, out: Path | None = None, json: Json = False) -> None:
    """Write the HTML page of a run: curves, metrics, configuration and examples.

    The page of a fine-tuned run also compares it with the baselines, and shows its seeds and the
    lengths of its texts. The page can also be written while the run is in progress.

    Args:
        run: Folder of a run, of a quickstart, of one task of glue, or of a comparison.
        out: File to write; unset: report.html in the run's folder.
    """
    refuse_suffix(out, *PAGE)

    from bertwright.recipes.quickstart.run import write_page
    from bertwright.report.comparison.page import write_comparison
    from bertwright.report.pages import write_report
    from bertwright.report.read import LADDER, mapping, read_object, read_run

    if (run / LADDER).is_file():
        preset = mapping(read_object(run / LADDER).get("settings")).get("preset")
        path = write_page(run, out) if preset == "quickstart" else write_comparison(run, out)
        print_json({"report": path}) if json else print(path)
        return
    found = read_run(run)
    if not found.results:
        from bertwright.recipes.examine import write_findings

        say("Running the model on held-out text")
        try:
            write_findings(found.folder)
        except BertwrightError as error:  # the page can do without examples
            say(f"without examples: {error}")
        found = read_run(run)
    path = write_report(found, out or run / "report.html")
    print_json({"report": path}) if json else print(path)
