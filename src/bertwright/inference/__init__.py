"""Trained models at work: fill blanks, judge pairs, turn texts into vectors."""
