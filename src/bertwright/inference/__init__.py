"""Use trained models: compute vectors, fill blanks, score and generate text, predict tasks."""
