"""Stories with a question and its answer, for memory networks."""
