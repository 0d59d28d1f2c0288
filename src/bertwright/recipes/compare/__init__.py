"""Compare systems on one text and one labelled task, and write the results as one page."""
