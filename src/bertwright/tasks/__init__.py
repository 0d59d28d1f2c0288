"""Labelled data and numbers: readers, instances, predictions and metrics of every kind of task."""
