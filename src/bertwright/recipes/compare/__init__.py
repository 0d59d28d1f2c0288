"""The comparison of systems on one text and one task: text and labels in, one page out."""
