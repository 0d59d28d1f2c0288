"""Open tables with one vector for each word, and evaluate them."""
